//! `isobar replay`, run on recordings.
