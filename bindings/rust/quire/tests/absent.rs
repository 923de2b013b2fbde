//! With the feature `dlopen` a library that is absent, or of another version, is an ordinary error of whatever is called first.
#![cfg(feature = "dlopen")]
#![deny(unused_unsafe)] // loading a file of the caller's choice is unsafe

use quire::*;

#[test]
fn an_absent_library_and_one_of_another_version_are_errors_of_every_first_call() {
    std::env::set_var("QUIRE_LIBRARY", "/nonexistent/libquire.so");
    for error in [
        version().unwrap_err(),
        Runtime::new(&RuntimeOptions::default()).unwrap_err(),
        Model::from_json("{}").unwrap_err(),
        HashAlgorithm::Sha256Cbor.digest_bytes().unwrap_err(),
    ] {
        assert_eq!((error.code, error.native_domain), (Code::Unavailable, 6));
        assert!(error.message.contains("/nonexistent/libquire.so"), "{}", error);
    }
    let refused = unsafe { quire_sys::load_from("/nonexistent/another.so".as_ref()) };
    assert!(matches!(refused, Err(quire_sys::LoadError::Absent(why)) if why.contains("/nonexistent/another.so")));
    // A library that has nothing but quire_abi_version, which answers 0.3.
    let other = match std::env::var("QUIRE_OTHER_VERSION") {
        Ok(other) => other,
        Err(_) => return println!("skipped: QUIRE_OTHER_VERSION names no library of another version"),
    };
    std::env::set_var("QUIRE_LIBRARY", &other);
    for error in [version().unwrap_err(), Runtime::new(&RuntimeOptions::default()).unwrap_err(), Model::from_json("{}").unwrap_err()] {
        assert_eq!(error.code, Code::IncompatibleAbi, "{}", error);
        assert!(error.message.contains("0.3") && error.message.contains("0.2"), "{}", error);
    }
}
