//! Readable short forms of kernel names.
//!
//! ```text
//! void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float,
//!   at::native::binary_internal::MulFunctor<float> >, std::array<char*, 3ul> >(int, ...)
//!                                     -> vectorized_elementwise_kernel<MulFunctor>
//! ```
//! Mangled names are demangled. Return types, parameters, namespaces and template arguments are
//! left out. For a kernel that only runs a functor, the functor's name is kept. If two names of a
//! table would look the same, the words in which they differ are added; if that is not enough, both
//! keep their full names. So two names of a table never look the same.

use cpp_demangle::DemangleOptions;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

/// Maximum length of names that are shortened: it takes several passes, and nobody reads longer
/// names.
const LONGEST: usize = 1 << 14;

/// Returns the short form of each name, in order; equal names have equal short forms. `None` if the
/// short form is the name itself. O(text).
pub fn short_names<'t>(names: impl IntoIterator<Item = &'t str>) -> Vec<Option<Box<str>>> {
    let names: Vec<&str> = names.into_iter().collect();
    let mut shorts: Vec<Option<Box<str>>> = vec![];
    for name in &names {
        shorts.push(short_name(name));
    }
    if shorts.iter().all(Option::is_none) {
        return shorts;
    }
    for stage in [add_namespaces, add_words, add_all_words] {
        for group in equal_groups(&names, &shorts) {
            let full: Vec<Cow<'_, str>> = group.iter().map(|at| demangled(names[at[0]])).collect();
            for (places, short) in group.iter().zip(stage(&full)) {
                for at in places {
                    shorts[*at] = Some(short.clone().into_boxed_str());
                }
            }
        }
    }
    // Names that still look the same stay whole. A whole name may equal another's short form.
    loop {
        let mut has_changed = false;
        for group in equal_groups(&names, &shorts) {
            for at in group.into_iter().flatten() {
                has_changed |= shorts[at].take().is_some();
            }
        }
        if !has_changed {
            return shorts;
        }
    }
}

/// Groups the places of different names with the same short form, by short form, then by name. O(n
/// log n), with little memory, as a trace may have a million names.
fn equal_groups(names: &[&str], shorts: &[Option<Box<str>>]) -> Vec<Vec<Vec<usize>>> {
    let short = |at: &usize| shorts[*at].as_deref().unwrap_or(names[*at]);
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by(|a, b| (short(a), names[*a]).cmp(&(short(b), names[*b])));
    let mut groups = vec![];
    for equal in order.chunk_by(|a, b| short(a) == short(b)) {
        let by_name = equal.chunk_by(|a, b| names[*a] == names[*b]);
        let by_name: Vec<Vec<usize>> = by_name.map(<[usize]>::to_vec).collect();
        if by_name.len() > 1 {
            groups.push(by_name);
        }
    }
    groups
}

/// Demangles a name. Kineto demangles CUDA names; ROCm names come mangled, kernel descriptors with
/// `.kd`.
fn demangled(name: &str) -> Cow<'_, str> {
    let symbol = name.strip_suffix(".kd").unwrap_or(name);
    if !symbol.starts_with("_Z") || symbol.len() > LONGEST {
        return Cow::Borrowed(name);
    }
    let parsed = cpp_demangle::Symbol::new(symbol).ok();
    let mut text = BoundedText::default();
    let options = DemangleOptions::default();
    let written = parsed.map(|symbol| symbol.structured_demangle(&mut text, &options));
    match written {
        Some(Ok(())) => Cow::Owned(text.0),
        _ => Cow::Borrowed(name),
    }
}

/// A text of at most [`LONGEST`] bytes.
// Each substitution of a mangled name can double it: thirty of them exceed any memory.
#[derive(Default)]
struct BoundedText(String);

impl fmt::Write for BoundedText {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        if self.0.len() + piece.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(piece);
        Ok(())
    }
}

/// Returns the short form of a single name; `None` if it is the name itself.
fn short_name(name: &str) -> Option<Box<str>> {
    if name.len() > LONGEST || !name.contains(['<', ':', '(']) && !name.starts_with("_Z") {
        return None;
    }
    let full = demangled(name);
    let short = KernelName::parse(&full)?.short();
    (short != name).then(|| short.into_boxed_str())
}

/// Parts of a kernel's name.
#[derive(Debug, PartialEq, Eq)]
struct KernelName<'t> {
    /// `at::native`; may be empty.
    namespaces: &'t str,
    /// `vectorized_elementwise_kernel`.
    base: &'t str,
    /// Text between `<` and `>`; may be empty.
    arguments: &'t str,
}

impl<'t> KernelName<'t> {
    /// Splits a name; `None` if it is no C++ name, such as `Memcpy DtoH (Device -> Pageable)`.
    fn parse(full: &'t str) -> Option<KernelName<'t>> {
        let text = full.trim();
        // template names start with their return type
        let text = text.strip_prefix("void ").unwrap_or(text);
        let text = &text[..parameters_start(text)];
        let (path, arguments) = match text.strip_suffix('>') {
            Some(inner) => {
                let open = matching_open(inner)?;
                (text[..open].trim_end(), inner[open + 1..].trim())
            }
            None => (text, ""),
        };
        let start = last_segment_start(path);
        let base = &path[start..];
        let is_word = |letter: char| letter.is_alphanumeric() || "_$.~@#".contains(letter);
        let is_name = !base.is_empty() && base.chars().all(is_word);
        is_name.then_some(KernelName {
            namespaces: path[..start].trim_end_matches("::"),
            base,
            arguments,
        })
    }

    /// Describes the kernel in at most two words.
    fn short(&self) -> String {
        match self
            .is_wrapper()
            .then(|| functor_name(self.arguments))
            .flatten()
        {
            Some(functor) => format!("{}<{functor}>", self.base),
            None => self.base.to_owned(),
        }
    }

    /// True if the template arguments hold all that the kernel does.
    fn is_wrapper(&self) -> bool {
        let base = self.base.to_ascii_lowercase();
        // at::native's loops, cutlass::Kernel, cutlass::device_kernel, ck_tile::kentry, and kernels
        // launched by CUB and Thrust
        base.contains("elementwise_kernel")
            || base.contains("reduce_kernel")
            || base.contains("multi_tensor_apply")
            || base.contains("_kernel_agent")
            || [
                "kernel",
                "kernel2",
                "_kernel",
                "device_kernel",
                "kentry",
                "kernel_impl",
            ]
            .contains(&&*base)
    }
}

/// Returns the start of the parameter list: the last bracket that closes at the end and follows a
/// name or template arguments.
fn parameters_start(text: &str) -> usize {
    // GCC's suffix of a clone, and the `const` of a method
    let end = text.find(" [clone").unwrap_or(text.len());
    let text = text[..end].trim_end();
    let text = text.strip_suffix(" const").unwrap_or(text);
    if !text.ends_with(')') {
        return text.len();
    }
    let mut depth = 0i32;
    for (at, letter) in text.char_indices().rev() {
        match letter {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            // `Memset (Device)` has no parameters; `f<4> (int)` from old demanglers does
            let before = text[..at].trim_end();
            let follows = before.len() == at || before.ends_with('>');
            return if follows && !before.is_empty() {
                before.len()
            } else {
                text.len()
            };
        }
    }
    text.len()
}

/// Returns the `<` that matches the `>` after this text. Arrows and shifts are no brackets.
fn matching_open(inner: &str) -> Option<usize> {
    let mut depth = 1i32;
    let bytes = inner.as_bytes();
    for at in (0..bytes.len()).rev() {
        match bytes[at] {
            b'>' if at > 0 && matches!(bytes[at - 1], b'-') => {}
            b'>' => depth += 1,
            b'<' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Returns the start of the last segment of a path: after the last `::` outside brackets.
fn last_segment_start(path: &str) -> usize {
    let mut depth = 0i32;
    let mut start = 0;
    let bytes = path.as_bytes();
    for (at, letter) in bytes.iter().enumerate() {
        match letter {
            b'<' | b'(' | b'{' => depth += 1,
            b'>' | b')' | b'}' => depth -= 1,
            b':' if depth == 0 && at > 0 && bytes[at - 1] == b':' => start = at + 1,
            _ => {}
        }
    }
    start
}

/// Iterates over the words of a name, identifiers and numbers, with their positions.
fn words_of(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut rest = 0;
    std::iter::from_fn(move || {
        let start = rest + text[rest..].find(is_word)?;
        let length = text[start..].find(|letter| !is_word(letter));
        rest = length.map_or(text.len(), |length| start + length);
        Some((start, &text[start..rest]))
    })
}

/// Returns the first word of the template arguments that describes the operation.
fn functor_name(arguments: &str) -> Option<&str> {
    words_of(arguments).find_map(|(start, word)| {
        let is_namespace = arguments[start + word.len()..].starts_with("::");
        let says_nothing = is_namespace
            || word.len() < 4
            || word.starts_with(|letter: char| letter.is_ascii_digit())
            || NO_FUNCTORS.contains(&word);
        (!says_nothing).then_some(word)
    })
}

/// Types, and functors that wrap the one that matters (`ATen/native/cuda/Loops.cuh`,
/// `ATen/native/cuda/Reduce.cuh`, `ATen/native/cuda/ForeachFunctors.cuh`).
const NO_FUNCTORS: [&str; 54] = [
    "bool",
    "char",
    "short",
    "long",
    "unsigned",
    "signed",
    "float",
    "double",
    "void",
    "const",
    "half",
    "Half",
    "__half",
    "BFloat16",
    "__nv_bfloat16",
    "__hip_bfloat16",
    "hip_bfloat16",
    "bfloat16",
    "Float8_e4m3fn",
    "Float8_e5m2",
    "complex",
    "int8_t",
    "uint8_t",
    "int16_t",
    "int32_t",
    "int64_t",
    "uint32_t",
    "uint64_t",
    "true",
    "false",
    "anonymous",
    "namespace",
    "array",
    "Array",
    "tuple",
    "pair",
    "lambda",
    "operator",
    "gpu_kernel_impl",
    "gpu_kernel_impl_nocast",
    "launch_legacy_kernel",
    "ReduceOp",
    "func_wrapper_t",
    "BinaryFunctor",
    "AUnaryFunctor",
    "BUnaryFunctor",
    "CompositeFunctor",
    "TensorListMetadata",
    "TensorListScalarListMetadata",
    "FusedOptimizerTensorListMetadata",
    "TrivialOffsetCalculator",
    "OffsetCalculator",
    "LoadWithoutCast",
    "StoreWithoutCast",
];

/// Adds to the names of a group the namespaces in which they differ.
fn add_namespaces(full: &[Cow<'_, str>]) -> Vec<String> {
    let parsed: Vec<Option<KernelName<'_>>> =
        full.iter().map(|full| KernelName::parse(full)).collect();
    let paths = parsed.iter().flatten().map(|name| name.namespaces);
    let different: BTreeSet<&str> = paths.clone().collect();
    let shared = shared_segments(&different);
    let mut out = vec![];
    for (full, name) in full.iter().zip(&parsed) {
        out.push(match name {
            Some(name) if different.len() > 1 => {
                let own = name.namespaces[shared.min(name.namespaces.len())..].trim_matches(':');
                let split = if own.is_empty() { "" } else { "::" };
                format!("{own}{split}{}", name.short())
            }
            Some(name) => name.short(),
            None => full.to_string(),
        });
    }
    out
}

/// Length in bytes of the namespaces common to all paths.
fn shared_segments(paths: &BTreeSet<&str>) -> usize {
    // among sorted texts, the first and the last differ earliest
    let (Some(first), Some(last)) = (paths.first(), paths.last()) else {
        return 0;
    };
    let equal = first.bytes().zip(last.bytes()).take_while(|(a, b)| a == b);
    let equal = equal.count();
    let whole = first.len().min(last.len()) == equal;
    let is_end = |path: &str| path.len() == equal || path[equal..].starts_with("::");
    if whole && is_end(first) && is_end(last) {
        return equal;
    }
    let text = first.get(..equal).unwrap_or("");
    text.rfind("::").map_or(0, |at| at + 2)
}

/// Adds to the names of a group the words in which they differ, each once.
fn add_words(full: &[Cow<'_, str>]) -> Vec<String> {
    add_differences(full, |arguments| {
        let words = words_of(arguments);
        // `c10::BFloat16` is as clear without `c10`
        let words = words.filter(|(start, word)| {
            let rest = &arguments[start + word.len()..];
            !rest.starts_with("::")
        });
        let mut words: Vec<(&str, usize)> = words.map(|(_, word)| (word, 0)).collect();
        let mut seen = BTreeSet::new();
        words.retain(|(word, _)| seen.insert(*word));
        words
    })
}

/// Like [`add_words`], with all words and their repetitions.
fn add_all_words(full: &[Cow<'_, str>]) -> Vec<String> {
    add_differences(full, |arguments| {
        let words: Vec<&str> = words_of(arguments).map(|(_, word)| word).collect();
        numbered(&words)
    })
}

/// Adds to the names of a group the words of their template arguments that not all names have. A
/// word counts together with the number of its earlier occurrences.
fn add_differences(full: &[Cow<'_, str>], words_in: fn(&str) -> Vec<(&str, usize)>) -> Vec<String> {
    let parsed: Vec<Option<KernelName<'_>>> =
        full.iter().map(|full| KernelName::parse(full)).collect();
    let mut words = vec![];
    let mut counts: IndexMap<(&str, usize), usize, FxBuildHasher> = IndexMap::default();
    for name in &parsed {
        let own = words_in(name.as_ref().map_or("", |name| name.arguments));
        for key in &own {
            *counts.entry(*key).or_default() += 1;
        }
        words.push(own);
    }
    let mut out = vec![];
    for ((name, short), own) in parsed.iter().zip(add_namespaces(full)).zip(words) {
        let is_telling = |key: &&(&str, usize)| counts.get(*key) < Some(&full.len());
        let own: Vec<&str> = own
            .iter()
            .filter(is_telling)
            .map(|(word, _)| *word)
            .collect();
        let wrapper = name.as_ref().filter(|name| name.is_wrapper());
        let functor = wrapper.and_then(|name| functor_name(name.arguments));
        let functor = functor.filter(|functor| !own.contains(functor));
        let shown: Vec<&str> = functor.into_iter().chain(own).collect();
        let base = short.split('<').next().unwrap_or_default();
        out.push(match (name, shown.is_empty()) {
            // no C++ name: nothing can be left out
            (None, _) => short,
            (_, true) => base.to_owned(),
            (_, false) => format!("{base}<{}>", shown.join(", ")),
        });
    }
    out
}

/// Pairs each word with the number of its earlier occurrences.
fn numbered<'t>(words: &[&'t str]) -> Vec<(&'t str, usize)> {
    let mut seen: IndexMap<&str, usize, FxBuildHasher> = IndexMap::default();
    let mut out = vec![];
    for word in words {
        let nth = seen.entry(word).or_default();
        out.push((*word, *nth));
        *nth += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(names: &[&str]) -> Vec<String> {
        let shorts = short_names(names.iter().copied());
        let all = names.iter().zip(shorts);
        all.map(|(name, short)| short.map_or((*name).to_owned(), String::from))
            .collect()
    }

    fn elementwise(functor: &str, size: &str) -> String {
        format!(
            "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<{size}, \
             {size}, {size}, at::native::binary_internal::{functor}<{size}> >, std::array<char*, \
             3ul> >(int, at::native::BinaryFunctor<{size}, {size}, {size}, \
             at::native::binary_internal::{functor}<{size}> >, std::array<char*, 3ul>)"
        )
    }

    #[test]
    fn names_of_pytorch_and_libraries() {
        for (name, want) in [
            (
                &*elementwise("MulFunctor", "float"),
                "vectorized_elementwise_kernel<MulFunctor>",
            ),
            (
                "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<\
                 at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::\
                 operator()() const::{lambda(float)#1}>(at::TensorIteratorBase&, \
                 at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::\
                 operator()() const::{lambda(float)#1} const&)::{lambda(int)#1}>(int, \
                 at::native::gpu_kernel_impl_nocast<float>)",
                "elementwise_kernel<direct_copy_kernel_cuda>",
            ),
            (
                "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<c10::Half, \
                 at::native::func_wrapper_t<c10::Half, at::native::sum_functor<c10::Half, float, \
                 c10::Half>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, \
                 unsigned int, c10::Half, 4> >(at::native::ReduceOp<c10::Half>)",
                "reduce_kernel<sum_functor>",
            ),
            (
                "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x64_16x6_nn_align4>\
                 (cutlass_80_tensorop_s1688gemm_128x64_16x6_nn_align4::Params)",
                "Kernel2<cutlass_80_tensorop_s1688gemm_128x64_16x6_nn_align4>",
            ),
            (
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            ),
            (
                "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128> >\
                 (pytorch_flash::Flash_fwd_params)",
                "flash_fwd_kernel",
            ),
            (
                "at::cuda::(anonymous namespace)::spin_kernel(long)",
                "spin_kernel",
            ),
            ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
            (
                "Memcpy DtoH (Device -> Pageable)",
                "Memcpy DtoH (Device -> Pageable)",
            ),
            ("Memset (Device)", "Memset (Device)"),
            ("_ZN7ck_tile6kentryILi1EiEEvT0_", "kentry"),
            ("_ZN3foo3barEi.kd", "bar"),
            ("_Zbroken", "_Zbroken"),
            ("void", "void"),
            ("", ""),
            ("a<", "a<"),
            (">", ">"),
            ("f()", "f"),
        ] {
            assert_eq!(shown(&[name]), [want], "{name}");
        }
    }

    /// Each substitution doubles the text.
    #[test]
    fn a_name_that_would_fill_the_memory_stays_mangled() {
        let mut name = String::from("_Z1f1A1BIS_S_E");
        for level in 1..30 {
            let before = base_36(level);
            name.push_str(&format!("S0_IS{before}_S{before}_E"));
        }
        let names = [name.as_str()];
        assert_eq!(shown(&names), names);
    }

    fn base_36(digit: usize) -> char {
        char::from(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[digit])
    }

    #[test]
    fn what_tells_names_apart_stays() {
        let names = [
            elementwise("MulFunctor", "float"),
            elementwise("DivFunctor", "float"),
            elementwise("MulFunctor", "c10::BFloat16"),
        ];
        assert_eq!(
            shown(&names.each_ref().map(String::as_str)),
            [
                "vectorized_elementwise_kernel<MulFunctor, float>",
                "vectorized_elementwise_kernel<DivFunctor>",
                "vectorized_elementwise_kernel<MulFunctor, BFloat16>",
            ]
        );
        assert_eq!(
            shown(&["a::x::run(int)", "a::y::run(int)", "a::y::walk()"]),
            ["x::run", "y::run", "walk"]
        );
        assert_eq!(
            shown(&["void run<4, 64>(int)", "void run<4, 128>(int)"]),
            ["run<64>", "run<128>"]
        );
        // only parameters differ, and one name is the short form of another
        assert_eq!(
            shown(&["run(int)", "run(float)"]),
            ["run(int)", "run(float)"]
        );
        assert_eq!(shown(&["ns::run(int)", "run"]), ["ns::run", "run"]);
    }

    proptest! {
        #[test]
        fn different_names_stay_different(
            names in proptest::collection::vec("(void )?([ab]::)?[kf](<[xy4, <>:]{0,6}>)?([(]i?[)])?", 1..9)
        ) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let short = shown(&names);
            for (a, name_a) in short.iter().zip(&names) {
                for (b, name_b) in short.iter().zip(&names) {
                    prop_assert_eq!(a == b, name_a == name_b, "{} {}", name_a, name_b);
                }
            }
        }
    }
}
