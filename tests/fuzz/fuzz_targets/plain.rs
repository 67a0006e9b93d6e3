#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| watchkeeper_tests::fuzz::run("plain", input));
