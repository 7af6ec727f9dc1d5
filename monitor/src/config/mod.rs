//! Files that an operator wrote, read into settings: all errors together, each with its place.
