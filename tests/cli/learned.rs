//! `etlink learn` and `replay --what-if device=NAME`.

use crate::tool::{Tool, pairs};
use serde_json::Value;

fn gpu(case: &str) -> String {
    let folder = pairs().with_file_name("gpu").join(case);
    folder.display().to_string()
}

/// Returns the recorded and the predicted time of kernels, ns, and the share of a basis.
fn predicted(tool: &Tool, options: &str, basis: &str) -> [f64; 3] {
    let line = format!("replay {options} --json");
    let run = tool.run(&line).exits(0).only_run();
    let times = run["what_if"]["questions"][0]["predicted"].as_array();
    let times = times.expect("times");
    let sum = |field: &str, of: &dyn Fn(&&Value) -> bool| {
        let times = times.iter().filter(of);
        times.filter_map(|one| one[field].as_f64()).sum::<f64>()
    };
    let recorded = sum("recorded_ns", &|_| true);
    let of_basis = sum("recorded_ns", &|one| one["basis"] == basis);
    [
        recorded,
        sum("predicted_ns", &|_| true),
        of_basis / recorded,
    ]
}

#[test]
fn a_recorded_device_has_its_recorded_times() {
    let tool = Tool::new();
    let lm = gpu("lm");
    tool.run(&format!("learn {lm} -o h200.etk")).exits(0);
    let options = format!("{lm} --what-if device=H200 --learned h200.etk");
    let [recorded, told, share] = predicted(&tool, &options, "same_shapes");
    assert!((told / recorded - 1.0).abs() < 0.02, "{told} of {recorded}");
    assert!(share > 0.9, "{share}");
}

#[test]
fn ops_of_other_programs_predict_those_of_this_one() {
    let tool = Tool::new();
    let others = ["resnet50", "llama-forward", "ops-sweep"]
        .map(gpu)
        .join(" ");
    tool.run(&format!("learn {others} -o others.etk")).exits(0);
    let options = format!("{} --what-if device=H200 --learned others.etk", gpu("vit"));
    let [recorded, told, share] = predicted(&tool, &options, "neighbours");
    assert!((told / recorded - 1.0).abs() < 0.15, "{told} of {recorded}");
    assert!(share > 0.4, "{share}");
    // the device of the recording is no other device
    let options = format!("{} --what-if device=H200", gpu("vit"));
    tool.run(&format!("replay {options}"))
        .exits(2)
        .complains(&["h200"]);
    // within a vendor few recordings tell less than the data sheets of both devices, which bound it
    let options = format!("{} --what-if device=H100", gpu("resnet50"));
    let [recorded, told, _] = predicted(&tool, &options, "peak_rates");
    assert!(
        (1.0..1.5).contains(&(told / recorded)),
        "{told} of {recorded}"
    );
    // nothing is known of a B200 but its data sheet
    let options = format!("{} --what-if device=B200", gpu("vit"));
    let ran = tool.run(&format!("replay {options}")).exits(0);
    ran.notes("peak rates alone");
}

#[test]
fn files_merge_to_the_same_bytes_in_any_order() {
    let tool = Tool::new();
    for case in ["vit", "llama-forward"] {
        tool.run(&format!("learn {} -o {case}.etk", gpu(case)))
            .exits(0);
    }
    tool.run("learn vit.etk llama-forward.etk -o one.etk")
        .exits(0);
    tool.run("learn llama-forward.etk vit.etk -o other.etk")
        .exits(0);
    assert_eq!(tool.read("one.etk"), tool.read("other.etk"));
    tool.run("learn vit.etk -o one.etk").exits(2);
    tool.file("bad.etk", "{}\n");
    tool.run("learn bad.etk -o new.etk")
        .exits(2)
        .complains(&["bad.etk", "line 1"]);
    tool.run("learn vit.etk -o new.txt").exits(2);
    let cpu = pairs().join("mlp-2.15.0");
    tool.run(&format!("learn {} -o cpu.etk", cpu.display()))
        .exits(2);
    let line = format!("replay {} --what-if no-sync --learned vit.etk", gpu("vit"));
    tool.run(&line).exits(2);
    assert!(!tool.path("new.etk").exists());
}
