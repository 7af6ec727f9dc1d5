#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    isobar_fuzz::parse("lscpu", bytes);
});
