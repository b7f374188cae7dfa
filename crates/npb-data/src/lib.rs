//! Incomplete tables, sparse ratings and mixed columns; readers, masks, splits and metrics.
