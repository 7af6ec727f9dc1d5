//! The types that the kernel side and the agent share.
#![no_std]
