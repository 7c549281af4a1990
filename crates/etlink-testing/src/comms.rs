//! Formats the contents of `record_param_comms` for the host and the device trace.

/// A collective, send or receive of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamComms {
    /// Value of `Collective name`.
    pub name: String,
    /// Element type of the data.
    pub dtype: String,
    /// Number of input elements.
    pub in_elements: u64,
    /// Number of output elements.
    pub out_elements: u64,
    /// Split sizes of the input.
    pub in_split: Vec<u64>,
    /// Split sizes of the output.
    pub out_split: Vec<u64>,
    /// Value of `pg_name`.
    pub group_name: String,
    /// Value of `pg_desc`.
    pub group_desc: String,
    /// Global ranks of the group.
    pub ranks: Vec<u64>,
    /// This rank's number within the group.
    pub rank: i64,
    /// Sequence number of the collective in its group.
    pub seq: i64,
    /// Peer of a send or receive; `None` for collectives.
    pub peer: Option<i64>,
    /// True if the caller does not wait.
    pub asynchronous: bool,
}

impl ParamComms {
    /// Creates an asynchronous collective of 1024 floats over the default group.
    pub fn new(name: &str, ranks: impl IntoIterator<Item = u64>, rank: i64, seq: i64) -> Self {
        ParamComms {
            name: name.into(),
            dtype: "Float".into(),
            in_elements: 1024,
            out_elements: 1024,
            in_split: vec![],
            out_split: vec![],
            group_name: "0".into(),
            group_desc: "default_pg".into(),
            ranks: ranks.into_iter().collect(),
            rank,
            seq,
            peer: None,
            asynchronous: true,
        }
    }

    pub(crate) fn first_rank(&self) -> u64 {
        self.ranks.first().copied().unwrap_or(0)
    }

    /// Returns the distance between the ranks; 1 in a group of one.
    pub(crate) fn rank_stride(&self) -> u64 {
        self.ranks
            .get(1)
            .map_or(1, |second| second.saturating_sub(self.first_rank()))
    }

    /// Returns the arguments of the Kineto op, or of the kernel that the op launched.
    pub(crate) fn kineto_arguments(&self) -> Vec<(String, String)> {
        let mut args = vec![
            ("Collective name", quoted(&self.name)),
            ("dtype", quoted(&self.dtype)),
            ("In msg nelems", self.in_elements.to_string()),
            ("Out msg nelems", self.out_elements.to_string()),
            ("Group size", self.ranks.len().to_string()),
            ("In split size", quoted(&list(&self.in_split))),
            ("Out split size", quoted(&list(&self.out_split))),
            ("Global rank start", self.first_rank().to_string()),
            ("Global rank stride", self.rank_stride().to_string()),
            ("Process Group Name", quoted(&self.group_name)),
            ("Process Group Description", quoted(&self.group_desc)),
            ("Process Group Ranks", quoted(&list(&self.ranks))),
            ("Rank", self.rank.to_string()),
            ("Seq", self.seq.to_string()),
            ("Is asynchronized op", self.asynchronous.to_string()),
            // A number of 61 bits, which a float would round.
            ("Comms Id", "2297668046887139545".to_owned()),
        ];
        match (self.name.as_str(), self.peer) {
            ("send", Some(peer)) => args.push(("Dst Rank", peer.to_string())),
            // Only messages have a peer; a message that is not a send is a receive.
            (_, Some(peer)) => args.push(("Src Rank", peer.to_string())),
            _ => {}
        }
        args.into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }

    /// Returns the inputs of the host node.
    pub(crate) fn host_inputs(&self) -> HostInputs {
        let ParamComms {
            name,
            group_name,
            group_desc,
            rank,
            seq,
            asynchronous,
            ..
        } = self;
        let n = self.in_elements;
        // `ProcessGroupNCCL::send` and `recv` record the peer in place of their own rank.
        let rank = self.peer.unwrap_or(*rank);
        let values = format!(
            concat!(
                r#"[[[5,6,0,{n},4,"cuda:0"]],[{seq},{is_p2p}],["{group_name}","{group_desc}"],"#,
                r#"{rank},"{name}",{in_split},{out_split},{start},{stride},{size},{asynchronous}]"#
            ),
            n = n,
            seq = seq,
            group_name = group_name,
            group_desc = group_desc,
            rank = rank,
            name = name,
            asynchronous = asynchronous,
            is_p2p = self.peer.is_some(),
            in_split = list(&self.in_split),
            out_split = list(&self.out_split),
            start = self.first_rank(),
            stride = self.rank_stride(),
            size = self.ranks.len(),
        );
        // One entry per input, as the observer writes them, which has a shape even for numbers and
        // texts.
        let shapes = format!("[[[{n}]],[[],[]],[[],[]],[],[],[],[],[],[],[],[]]");
        let types = concat!(
            r#"["GenericList[Tensor(float)]","Tuple[Int,Bool]","Tuple[String,String]","Int","#,
            r#""String","GenericList[]","GenericList[]","Int","Int","Int","Bool"]"#
        );
        HostInputs {
            values,
            shapes,
            types: types.to_owned(),
        }
    }
}

/// Quotes text that needs no escapes as a JSON string.
fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// Inputs of the host node, as JSON lists.
#[derive(Default)]
pub(crate) struct HostInputs {
    pub(crate) values: String,
    pub(crate) shapes: String,
    pub(crate) types: String,
}

/// Maximum number of list entries that PyTorch prints: `kTruncatLength` in
/// `torch/csrc/profiler/util.cpp`.
const MAX_LIST_ENTRIES: usize = 30;

/// Formats a list as `[0, 1, 2]`, truncated like PyTorch's.
pub(crate) fn list(values: &[u64]) -> String {
    let printed = values.iter().take(MAX_LIST_ENTRIES);
    let mut items: Vec<String> = printed.map(u64::to_string).collect();
    if values.len() > MAX_LIST_ENTRIES {
        items.push("...".to_owned());
    }
    format!("[{}]", items.join(", "))
}
