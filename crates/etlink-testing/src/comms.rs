//! What `record_param_comms` says, as the two traces write it.

/// A collective, send or receive of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamComms {
    /// `Collective name`.
    pub name: String,
    /// Element type.
    pub dtype: String,
    /// Elements of the input.
    pub in_elements: u64,
    /// Elements of the output.
    pub out_elements: u64,
    /// Input split sizes.
    pub in_split: Vec<u64>,
    /// Output split sizes.
    pub out_split: Vec<u64>,
    /// `pg_name`.
    pub group_name: String,
    /// `pg_desc`.
    pub group_desc: String,
    /// Global ranks of the group.
    pub ranks: Vec<u64>,
    /// This rank in the group.
    pub rank: i64,
    /// Number of the collective in its group.
    pub seq: i64,
    /// The peer of a send or receive.
    pub peer: Option<i64>,
    /// Whether the caller does not wait.
    pub asynchronous: bool,
}

impl ParamComms {
    /// An asynchronous collective of 1024 floats over the default group.
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

    /// Distance between the ranks; 1 in a group of one.
    pub(crate) fn rank_stride(&self) -> u64 {
        self.ranks
            .get(1)
            .map_or(1, |second| second.saturating_sub(self.first_rank()))
    }

    /// Arguments of the Kineto op, or of the kernel that it launched.
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
            // Only messages have a peer, and what is no send is a receive.
            (_, Some(peer)) => args.push(("Src Rank", peer.to_string())),
            _ => {}
        }
        args.into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }

    /// The inputs of the host node.
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
        // `ProcessGroupNCCL::send` and `recv` record the peer where others record their own rank.
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
        // One entry per input, as the observer writes them: it has a shape for numbers and texts,
        // too.
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

/// A JSON string of text that needs no escapes.
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

/// As many entries of a list as PyTorch prints: `kTruncatLength` in `torch/csrc/profiler/util.cpp`.
const MAX_LIST_ENTRIES: usize = 30;

/// `[0, 1, 2]`, cut where PyTorch cuts.
pub(crate) fn list(values: &[u64]) -> String {
    let printed = values.iter().take(MAX_LIST_ENTRIES);
    let mut items: Vec<String> = printed.map(u64::to_string).collect();
    if values.len() > MAX_LIST_ENTRIES {
        items.push("...".to_owned());
    }
    format!("[{}]", items.join(", "))
}
