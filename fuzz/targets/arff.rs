#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| npb_fuzz::arff(bytes));
