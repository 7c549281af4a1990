//! Input shapes in the format of the profiler's table.

/// Formats `[[8,32],[],[[2],[3]]]` as `[[8, 32], [], []]`: a list of tensors counts as no tensor,
/// and spacing in the trace does not matter. O(length).
pub(super) fn python_shapes(raw: &str) -> String {
    let mut out = String::from("[");
    let (mut depth, mut digits, mut numbers) = (0u32, String::new(), vec![]);
    let mut nested = false;
    for letter in raw.chars() {
        match letter {
            '[' => {
                depth += 1;
                nested |= depth > 2;
            }
            ']' | ',' => {
                if !digits.is_empty() {
                    numbers.push(std::mem::take(&mut digits));
                }
                if letter == ']' {
                    if depth == 2 {
                        let text = if nested {
                            String::new()
                        } else {
                            numbers.join(", ")
                        };
                        out += if out.len() > 1 { ", [" } else { "[" };
                        out += &text;
                        out.push(']');
                    }
                    if depth <= 2 {
                        numbers.clear();
                        nested = false;
                    }
                    depth = depth.saturating_sub(1);
                }
            }
            letter if letter.is_ascii_digit() || letter == '-' => digits.push(letter),
            _ => {}
        }
    }
    out.push(']');
    out
}

#[cfg(test)]
mod tests {
    use super::python_shapes;

    #[test]
    fn as_python_prints_them() {
        for (raw, text) in [
            ("", "[]"),
            ("[]", "[]"),
            ("[[]]", "[[]]"),
            ("[[8,32],[],[64]]", "[[8, 32], [], [64]]"),
            ("[[8, 32], [[1, 2], [3]], []]", "[[8, 32], [], []]"),
            ("[[[]],[5]]", "[[], [5]]"),
            ("[[[[1],[]]],[5]]", "[[], [5]]"),
            ("[[1", "[]"),
        ] {
            assert_eq!(python_shapes(raw), text, "{raw}");
        }
    }
}
