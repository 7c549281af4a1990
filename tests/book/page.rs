//! Parses the console blocks of a page of Markdown.

use regex::Regex;
use snapbox::{Data, IntoData};

/// A page, split into its console blocks and the text around them.
pub struct Page<'t> {
    /// Text before each block, its opening fence included; last, the text after the last block.
    around: Vec<String>,
    pub blocks: Vec<Block<'t>>,
}

/// A fenced block in the language `console`.
pub struct Block<'t> {
    pub steps: Vec<Step<'t>>,
}

/// A command with its output on the page.
pub struct Step<'t> {
    pub command: &'t str,
    pub output: String,
}

impl<'t> Page<'t> {
    pub fn parse(text: &'t str) -> Page<'t> {
        let mut page = Page {
            around: vec![String::new()],
            blocks: Vec::new(),
        };
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            push_line(page.around.last_mut().expect("never empty"), line);
            if line != "```console" {
                continue;
            }
            let mut block = Block { steps: Vec::new() };
            page.around.push(String::new());
            for line in lines.by_ref() {
                if line == "```" {
                    push_line(page.around.last_mut().expect("never empty"), line);
                    break;
                }
                block.take_line(line);
            }
            page.blocks.push(block);
        }
        page
    }

    /// Returns the page with the printed blocks instead of its own.
    pub fn with_outputs(&self, printed: &[String]) -> String {
        let mut text = String::new();
        for (at, around) in self.around.iter().enumerate() {
            text.push_str(around);
            let Some(block) = self.blocks.get(at) else {
                continue;
            };
            // the page's own text is right, including its wildcards
            let shown = block.text();
            let holds = compare(&shown, &printed[at]).is_none();
            text.push_str(if holds { &shown } else { &printed[at] });
        }
        text
    }

    /// Describes the differences between the blocks and the printed output; `None` if there are
    /// none.
    pub fn difference(&self, printed: &[String]) -> Option<String> {
        let differences: Vec<String> = self
            .blocks
            .iter()
            .zip(printed)
            .filter_map(|(block, printed)| compare(&block.text(), printed))
            .collect();
        (!differences.is_empty()).then(|| differences.join("\n"))
    }
}

impl<'t> Block<'t> {
    fn take_line(&mut self, line: &'t str) {
        match (line.strip_prefix("$ "), self.steps.last_mut()) {
            (Some(command), _) => self.steps.push(Step {
                command,
                output: String::new(),
            }),
            (None, Some(step)) => push_line(&mut step.output, line),
            (None, None) => panic!("a console block begins with `{line}`, which is no command"),
        }
    }

    /// Formats the block as the page shows it.
    pub fn text(&self) -> String {
        self.steps
            .iter()
            .map(|step| format!("$ {}\n{}", step.command, step.output))
            .collect()
    }
}

/// Replaces elapsed times, which differ between machines, by a placeholder.
fn without_seconds(text: &str) -> String {
    // `, 0.104 s` ends the line of a rank; `seconds 0.584  read 0.411, link …` is a separate line
    let took = Regex::new(r"(?m), \d+\.\d+ s$|^  seconds .*$").expect("is a pattern");
    took.replace_all(text, ", # s").into_owned()
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// Describes the difference between two texts, ignoring seconds; `None` if there is none. `[..]`
/// and `...` in `shown` match anything.
fn compare(shown: &str, printed: &str) -> Option<String> {
    let shown: Data = without_seconds(shown).into_data();
    let printed: Data = without_seconds(printed).into_data();
    let assert = snapbox::Assert::new();
    let result = assert.try_eq(None, printed, shown);
    result.err().map(|error| error.to_string())
}
