//! Who would go first, and why not the others.
