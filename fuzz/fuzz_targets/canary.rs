//! A planted defect, which a fuzzer that works finds within seconds: it needs coverage to get
//! through the four letters and a JSON document, and AddressSanitizer to see the byte that is read
//! behind a buffer. Without AddressSanitizer (`-s none`) a panic stands for it.
#![no_main]
#![feature(cfg_sanitize)]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [b'w', b'a', b'v', b'e', document @ ..] = data else { return };
    let Ok(value) = wavetrain::source::json::parse(document) else { return };
    let Some(number) = value.as_integer().and_then(|number| u64::try_from(number).ok()) else {
        return;
    };
    let buffer = vec![0xA5u8; 16];
    if cfg!(sanitize = "address") {
        // Sound up to 15; the comparison is the planted defect.
        let at = number.min(16) as usize;
        // SAFETY: none, on purpose.
        std::hint::black_box(unsafe { buffer.as_ptr().add(at).read_volatile() });
    } else {
        assert!(number < 16, "the canary");
    }
});
