//! Comparators for the experiments of this workspace; not published.
