//! Infinite tensor factorisation mixture: joint models of mixed data with their own, dependent clusterings.
