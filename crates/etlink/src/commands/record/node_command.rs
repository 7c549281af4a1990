//! Commands that start the ranks of one node of several: `torchrun --nnodes 2 …`, `python -m
//! torch.distributed.run …`, `accelerate launch --num_machines 2 …`.

/// Node settings from such a command, or from the variables that replace its options.
#[derive(Debug, Default)]
pub struct NodeCommand {
    /// True if the number of nodes is given.
    pub is_told: bool,
    /// Minimum and maximum number of nodes.
    pub nodes: (u32, u32),
    /// Number of this node, if given.
    pub number: Option<u32>,
    /// Identity of the job: its name, or the address at which its nodes meet.
    pub name: String,
}

impl NodeCommand {
    /// Reads the words of the command. torchrun also takes an option from the variable `PET_…`.
    pub fn read(command: &[String], variable: &dyn Fn(&str) -> Option<String>) -> NodeCommand {
        // `sh -c 'torchrun …'` holds the whole command in one word
        let words: Vec<&str> = command
            .iter()
            .flat_map(|word| word.split_whitespace())
            .collect();
        let launched = launcher_options(&words);
        let options = launched.unwrap_or_default();
        let value = |names: &[&str]| {
            let set = names.first().and_then(|name| {
                variable(&format!("PET_{}", name.replace('-', "_").to_uppercase()))
            });
            option(options, names).map(str::to_owned).or(set)
        };
        let nodes = value(&["nnodes", "num-machines"]);
        let Some(nodes) = nodes.as_deref().and_then(node_range) else {
            return NodeCommand {
                // torchrun defaults to one node; accelerate's default is in its configuration file
                is_told: launched.is_some() && !words.contains(&"launch"),
                nodes: (1, 1),
                ..NodeCommand::default()
            };
        };
        let id = value(&["rdzv-id"]).filter(|id| id != "none");
        let name = id.unwrap_or_else(|| {
            let address = value(&["master-addr", "main-process-ip"]).map(|address| {
                let port = value(&["master-port", "main-process-port"]);
                format!("{address}:{}", port.unwrap_or_default())
            });
            let place = value(&["rdzv-endpoint"]).or(address);
            format!("none {}", place.unwrap_or_default())
        });
        let number = value(&["node-rank", "machine-rank"]);
        NodeCommand {
            is_told: true,
            nodes,
            number: number.and_then(|number| number.parse().ok()),
            name: name.trim_end().to_owned(),
        }
    }
}

/// Returns the words between such a launcher and the script that it starts.
fn launcher_options<'w, 'a>(words: &'w [&'a str]) -> Option<&'w [&'a str]> {
    let is_launcher = |place: usize| {
        let name = words[place].rsplit('/').next().unwrap_or_default();
        let before = place.checked_sub(1).map(|before| words[before]);
        match name {
            "torchrun" => true,
            "torch.distributed.run" | "torch.distributed.launch" => before == Some("-m"),
            "launch" => before.is_some_and(|before| before.ends_with("accelerate")),
            _ => false,
        }
    };
    let place = (0..words.len()).find(|place| is_launcher(*place))?;
    let options = &words[place + 1..];
    // words after the script belong to the script
    let ends = |word: &&str| word.ends_with(".py") || ["-m", "--module"].contains(word);
    let end = options.iter().position(ends).unwrap_or(options.len());
    Some(&options[..end])
}

/// Returns the value of an option that has one of these names, written with `-` or `_`.
fn option<'a>(words: &[&'a str], names: &[&str]) -> Option<&'a str> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(word) = word.strip_prefix('-') else {
            continue;
        };
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        let name = name.trim_start_matches('-').replace('_', "-");
        if names.contains(&name.as_str()) {
            return value.or_else(|| words.next().copied());
        }
    }
    None
}

/// Parses `2`, or `1:4` for a job whose number of nodes may change.
fn node_range(text: &str) -> Option<(u32, u32)> {
    let (least, most) = text.split_once(':').unwrap_or((text, text));
    Some((least.parse().ok()?, most.parse().ok()?))
}
