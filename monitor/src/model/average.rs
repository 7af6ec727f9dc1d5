//! Averages over ten seconds, a minute and five minutes from totals, by the kernel's own maths.
