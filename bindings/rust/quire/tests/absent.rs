//! With the feature `dlopen` a library that is absent is an ordinary error of whatever is called first.
#![cfg(feature = "dlopen")]

use quire::*;

#[test]
fn an_absent_library_is_an_error_of_every_first_call() {
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
}
