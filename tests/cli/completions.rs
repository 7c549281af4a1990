//! `etlink completions`: results in shells.

use crate::tool::Tool;

/// Returns bash's completions for these words; the last word is incomplete.
#[cfg(unix)]
fn completed_by_bash(words: &[&str]) -> Vec<String> {
    let script = Tool::new().run("completions bash").exits(0).stdout;
    let last = words.len() - 1;
    let typed = words.join(" ");
    let (current, previous) = (words[last], words[last - 1]);
    let asked = format!(
        "{script}\nCOMP_WORDS=({typed}); COMP_CWORD={last}; COMP_LINE='{typed}'; \
         _etlink etlink '{current}' '{previous}'; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    let output = std::process::Command::new("bash")
        .args(["--norc", "-c", &asked])
        .output()
        .expect("runs bash");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(str::to_owned).collect()
}

#[cfg(unix)]
#[test]
fn bash_completes_commands_options_and_values() {
    assert_eq!(completed_by_bash(&["etlink", "ana"]), ["analyze"]);
    let options = completed_by_bash(&["etlink", "merge", "--overw"]);
    assert_eq!(options, ["--overwrite"]);
    let simulators = completed_by_bash(&["etlink", "merge", "--for", "as"]);
    assert_eq!(
        simulators,
        ["astra-sim", "astra-sim-ns3", "astra-sim-htsim"]
    );
}

#[test]
fn every_shell_gets_a_script_that_names_all_commands() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = Tool::new().run(&format!("completions {shell}")).exits(0);
        for command in [
            "link",
            "merge",
            "ranks",
            "findings",
            "record",
            "completions",
        ] {
            assert!(ran.stdout.contains(command), "{shell}: {command}");
        }
        assert_eq!(ran.stderr, "");
    }
}

#[test]
fn an_unknown_shell_is_refused_with_those_that_are_known() {
    let ran = Tool::new().run("completions tcsh").exits(2);
    assert!(ran.stderr.contains("bash, elvish, fish, powershell, zsh"));
}
