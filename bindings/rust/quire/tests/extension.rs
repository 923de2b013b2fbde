//! An op that a module publishes, found by name and called: that of samples/own_driver, where the environment says in which folder it lies.

use quire::*;

#[test]
fn an_op_of_a_module_is_found_and_called() {
    let folder = match std::env::var("QUIRE_OWN_DRIVER") {
        Ok(folder) => folder,
        Err(_) => return println!("skipped: QUIRE_OWN_DRIVER names no folder with the driver of samples/own_driver"),
    };
    let options = RuntimeOptions { driver: "own".into(), driver_path: folder, trust_paths: true, ..RuntimeOptions::default() };
    let runtime = Runtime::new(&options).unwrap();
    let listed = Op::list(&runtime, "").unwrap();
    assert_eq!((listed.len(), listed[0].name.as_str(), listed[0].signature.as_str()), (1, "own.blend", "f64(f64,f64,f32)"));
    assert_eq!(Op::find(&runtime, "", "own.other", 0, OpForm::Any).unwrap_err().code, Code::NotFound);
    assert_eq!(Op::find(&runtime, "", "own.blend", 2, OpForm::Any).unwrap_err().code, Code::NotFound);
    assert_eq!(Op::find(&runtime, "", "own.blend", 1, OpForm::Packed).unwrap_err().code, Code::Unimplemented);
    let op = Op::find(&runtime, "", "own.blend", 1, OpForm::Any).unwrap();
    drop(runtime);
    assert_eq!(op.info().unwrap(), listed[0]);
    match op.invoke(&[Value::F64(10.0), Value::F64(20.0), Value::F32(0.25)]).unwrap() {
        Value::F64(number) => assert!((number - 12.5).abs() < 1e-12),
        other => panic!("{:?}", other),
    }
    for bad in [&[Value::F64(1.0)][..], &[Value::I64(1), Value::F64(1.0), Value::F32(0.5)], &[Value::Void; 3], &[Value::I32(1); 17]] {
        assert_eq!(op.invoke(bad).unwrap_err().code, Code::InvalidArgument);
    }
    assert_eq!(op.invoke(&[Value::Str("x"), Value::F64(1.0), Value::F32(0.5)]).unwrap_err().code, Code::InvalidArgument);
}
