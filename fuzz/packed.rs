//! The packing that attributes state, as serde_json reads it: nothing is passed over.

use serde_json::Value;
use wavetrain::records::Packing;

/// The packing as serde_json reads it.
pub fn check_packing(packing: &Packing, attributes: &Value) {
    let is_there = |name: &&str| attributes.get(*name).is_some_and(|value| !value.is_null());
    let bits = [("scale_factor", 1), ("add_offset", 2), ("_FillValue", 4), ("missing_value", 4)];
    for (name, bit) in bits.iter().chain(&[("_Unsigned", 8)]) {
        assert!(!is_there(name) || packing.bits & bit != 0, "{name}: {attributes}");
    }
    assert_eq!(packing.changes & !packing.bits, 0);
    let scale = attributes.get("scale_factor").and_then(Value::as_f64);
    assert!(scale.is_none_or(|scale| scale == 1.0) || packing.changes & 1 != 0, "{attributes}");
}
