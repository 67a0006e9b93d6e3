//! Python's replacement fields, such as `{name:>8.2f}` and `{name!r}`, filled with values.
//!
//! - Implements PEP 3101 for names without attributes, and the format specification for text and
//!   numbers, without `z`. Zeros that fill a width are not grouped.
//! - The result has at most [`MAX_LENGTH`] characters.

use crate::workflow::values::value::Value;

/// Maximum length of the result in characters.
const MAX_LENGTH: usize = 1_000_000;
/// Maximum width and precision.
const MAX_NUMBER: usize = 10_000;
/// Maximum nesting of fields in the specification of another field, as in Python.
const MAX_DEPTH: u8 = 2;

/// Fills the fields of a template; `value` returns the value of a name. Fails if the template is
/// invalid, or a value does not fit its specification.
pub(crate) fn format(
    template: &str,
    value: &dyn Fn(&str) -> Option<Value>,
) -> Result<String, String> {
    fill(template, value, MAX_DEPTH)
}

fn fill(
    template: &str,
    value: &dyn Fn(&str) -> Option<Value>,
    depth: u8,
) -> Result<String, String> {
    let mut out = String::new();
    let mut chars = template.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '{' if chars.peek() == Some(&'{') => {
                chars.next();
                out.push('{');
            }
            '}' if chars.peek() == Some(&'}') => {
                chars.next();
                out.push('}');
            }
            '}' => return Err("there is a single }; write }} for one".to_owned()),
            '{' => {
                let mut field = String::new();
                let mut open = 1_u32;
                for c in chars.by_ref() {
                    match c {
                        '{' => open += 1,
                        '}' => open -= 1,
                        _ => {}
                    }
                    if open == 0 {
                        break;
                    }
                    field.push(c);
                }
                if open > 0 {
                    return Err("a { has no }; write {{ for one".to_owned());
                }
                out.push_str(&format_field(&field, value, depth)?);
            }
            c => out.push(c),
        }
        if out.len() > MAX_LENGTH {
            return Err(format!("the text has more than {MAX_LENGTH} characters"));
        }
    }
    Ok(out)
}

/// Formats one field, given without braces.
fn format_field(
    field: &str,
    value: &dyn Fn(&str) -> Option<Value>,
    depth: u8,
) -> Result<String, String> {
    let (head, spec) = field.split_once(':').unwrap_or((field, ""));
    let (name, conversion) = match head.split_once('!') {
        Some((name, conversion)) => (name, Some(conversion)),
        None => (head, None),
    };
    if name.is_empty() || name.bytes().all(|b| b.is_ascii_digit()) {
        return Err("a field needs a name, such as {count}".to_owned());
    }
    if name.contains(['.', '[']) {
        return Err(format!(
            "{{{name}}} looks into a value; use data_operations for that"
        ));
    }
    let found =
        value(name).ok_or_else(|| format!("the template has {{{name}}}, which data lacks"))?;
    let found = match conversion {
        None => found,
        Some("s") => found.python_str().into(),
        Some("r" | "a") => found.python_repr().into(),
        Some(other) => return Err(format!("!{other} is not a conversion; use !s or !r")),
    };
    let nested = spec.contains('{');
    let spec = match depth.checked_sub(1) {
        Some(depth) if nested && depth > 0 => fill(spec, value, depth)?,
        _ if nested => return Err("fields are nested too deeply".to_owned()),
        _ => spec.to_owned(),
    };
    Spec::parse(&spec)?.apply(&found)
}

/// A format specification: `[[fill]align][sign][#][0][width][grouping][.precision][type]`.
#[derive(Debug, Default)]
struct Spec {
    fill: Option<char>,
    align: Option<char>,
    sign: Option<char>,
    alternate: bool,
    zero: bool,
    width: usize,
    grouping: Option<char>,
    precision: Option<usize>,
    kind: Option<char>,
}

impl Spec {
    fn parse(text: &str) -> Result<Self, String> {
        let mut spec = Self::default();
        let chars: Vec<char> = text.chars().collect();
        let at = |i: usize| chars.get(i).copied();
        let is_align = |c: Option<char>| matches!(c, Some('<' | '>' | '=' | '^'));
        let mut i = 0;
        if is_align(at(1)) {
            (spec.fill, spec.align) = (at(0), at(1));
            i = 2;
        } else if is_align(at(0)) {
            spec.align = at(0);
            i = 1;
        }
        if let Some(sign @ ('+' | '-' | ' ')) = at(i) {
            spec.sign = Some(sign);
            i += 1;
        }
        if at(i) == Some('#') {
            spec.alternate = true;
            i += 1;
        }
        if at(i) == Some('0') {
            spec.zero = true;
            i += 1;
        }
        let number = |i: &mut usize| -> Result<Option<usize>, String> {
            let from = *i;
            while at(*i).is_some_and(|c| c.is_ascii_digit()) {
                *i += 1;
            }
            let digits: String = chars.get(from..*i).unwrap_or_default().iter().collect();
            if digits.is_empty() {
                return Ok(None);
            }
            let number = digits.parse().ok().filter(|n| *n <= MAX_NUMBER);
            number
                .map(Some)
                .ok_or_else(|| format!("{digits} is more than {MAX_NUMBER}"))
        };
        spec.width = number(&mut i)?.unwrap_or(0);
        if let Some(grouping @ (',' | '_')) = at(i) {
            spec.grouping = Some(grouping);
            i += 1;
        }
        if at(i) == Some('.') {
            i += 1;
            let digits = number(&mut i)?;
            spec.precision = Some(digits.ok_or("a precision needs digits after the dot")?);
        }
        spec.kind = at(i);
        if i + usize::from(spec.kind.is_some()) != chars.len() {
            return Err(format!("{text:?} is not a format"));
        }
        Ok(spec)
    }

    fn apply(&self, value: &Value) -> Result<String, String> {
        let refuse = || {
            let kind = self.kind.map(String::from).unwrap_or_default();
            Err(format!("{} can't be written as {kind:?}", value.what()))
        };
        match (value, self.kind) {
            (Value::Int(_) | Value::Bool(_), Some('b' | 'o' | 'x' | 'X' | 'd' | 'n' | 'c')) => {
                self.whole(value.as_i64().unwrap_or(0))
            }
            (Value::Int(i), None) => self.whole(*i),
            (Value::Bool(flag), None) if !self.is_plain() => self.whole(i64::from(*flag)),
            (
                Value::Int(_) | Value::Float(_) | Value::Bool(_),
                Some('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%' | 'n'),
            )
            | (Value::Float(_), None) => self.real(value.as_f64().unwrap_or(f64::NAN)),
            (Value::Text(_), None | Some('s')) => Ok(self.text(&value.python_str())),
            (Value::Bool(_) | Value::Null, None) => Ok(self.text(&value.python_str())),
            // Other values have no format in Python.
            (_, None) if self.is_plain() => Ok(value.python_str()),
            _ => refuse(),
        }
    }

    fn is_plain(&self) -> bool {
        self.width == 0 && self.precision.is_none() && self.align.is_none() && self.sign.is_none()
    }

    fn text(&self, text: &str) -> String {
        let text: String = match self.precision {
            Some(most) => text.chars().take(most).collect(),
            None => text.to_owned(),
        };
        self.pad("", &text, '<')
    }

    fn whole(&self, number: i64) -> Result<String, String> {
        let size = number.unsigned_abs();
        let (prefix, digits) = match self.kind {
            Some('b') => ("0b", format!("{size:b}")),
            Some('o') => ("0o", format!("{size:o}")),
            Some('x') => ("0x", format!("{size:x}")),
            Some('X') => ("0X", format!("{size:X}")),
            Some('c') => {
                let letter = u32::try_from(number).ok().and_then(char::from_u32);
                let letter = letter.ok_or_else(|| format!("{number} is not a character code"))?;
                return Ok(self.pad("", &letter.to_string(), '<'));
            }
            _ => ("", size.to_string()),
        };
        let prefix = if self.alternate { prefix } else { "" };
        let sign = self.sign_of(number < 0);
        let group = if prefix.is_empty() && !matches!(self.kind, Some('b' | 'o' | 'x' | 'X')) {
            3
        } else {
            4
        };
        let digits = self.grouped(&digits, group);
        Ok(self.pad(&format!("{sign}{prefix}"), &digits, '>'))
    }

    fn real(&self, number: f64) -> Result<String, String> {
        let size = number.abs();
        let precision = self.precision.unwrap_or(6);
        let text = if !size.is_finite() {
            let text = if size.is_nan() { "nan" } else { "inf" };
            match self.kind {
                Some('E' | 'F' | 'G') => text.to_uppercase(),
                _ => text.to_owned(),
            }
        } else {
            match self.kind {
                Some('f' | 'F') => format!("{size:.precision$}"),
                Some('%') => format!("{:.precision$}%", size * 100.0),
                Some('e') => exponent(size, precision, 'e'),
                Some('E') => exponent(size, precision, 'E'),
                Some('g' | 'n') => general(size, precision, 'e', self.alternate),
                Some('G') => general(size, precision, 'E', self.alternate),
                _ => match self.precision {
                    // Like `g`, with at least one digit after the dot.
                    Some(precision) => {
                        let text = general(size, precision, 'e', false);
                        if text.contains(['.', 'e']) {
                            text
                        } else {
                            text + ".0"
                        }
                    }
                    None => Value::Float(size).python_str(),
                },
            }
        };
        let end = text.find(['.', 'e', 'E', '%']).unwrap_or(text.len());
        let (whole, rest) = text.split_at(end);
        let text = if size.is_finite() {
            self.grouped(whole, 3) + rest
        } else {
            text
        };
        Ok(self.pad(
            self.sign_of(number.is_sign_negative() && !number.is_nan()),
            &text,
            '>',
        ))
    }

    const fn sign_of(&self, negative: bool) -> &'static str {
        match (negative, self.sign) {
            (true, _) => "-",
            (false, Some('+')) => "+",
            (false, Some(' ')) => " ",
            _ => "",
        }
    }

    fn grouped(&self, digits: &str, group: usize) -> String {
        let Some(separator) = self.grouping else {
            return digits.to_owned();
        };
        let mut out = String::new();
        for (i, c) in digits.chars().enumerate() {
            if i > 0 && (digits.len() - i).is_multiple_of(group) {
                out.push(separator);
            }
            out.push(c);
        }
        out
    }

    /// Pads `sign` and `text` to the width.
    fn pad(&self, sign: &str, text: &str, default: char) -> String {
        let lacks = self
            .width
            .saturating_sub(sign.chars().count() + text.chars().count());
        let fill = self.fill.unwrap_or(if self.zero { '0' } else { ' ' });
        let numeric = default == '>';
        let align = self
            .align
            .unwrap_or(if self.zero && numeric { '=' } else { default });
        let run = |n: usize| std::iter::repeat_n(fill, n).collect::<String>();
        match align {
            '<' => format!("{sign}{text}{}", run(lacks)),
            '^' => format!("{}{sign}{text}{}", run(lacks / 2), run(lacks - lacks / 2)),
            '=' => format!("{sign}{}{text}", run(lacks)),
            _ => format!("{}{sign}{text}", run(lacks)),
        }
    }
}

/// Formats a number with an exponent of at least two digits.
fn exponent(size: f64, precision: usize, letter: char) -> String {
    let text = format!("{size:.precision$e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let sign = if power < 0 { '-' } else { '+' };
    format!("{digits}{letter}{sign}{:02}", power.abs())
}

/// Formats with `precision` significant digits, with an exponent if it would be long.
fn general(size: f64, precision: usize, letter: char, keep_zeros: bool) -> String {
    let precision = precision.max(1);
    let rounded = format!("{size:.*e}", precision - 1);
    let power: i32 = rounded
        .split_once('e')
        .and_then(|(_, power)| power.parse().ok())
        .unwrap_or(0);
    let most = i32::try_from(precision).unwrap_or(i32::MAX);
    if (-4..most).contains(&power) {
        let decimals = usize::try_from(most - 1 - power).unwrap_or(0);
        let text = format!("{size:.decimals$}");
        return if keep_zeros {
            text
        } else {
            trimmed(&text).to_owned()
        };
    }
    let text = exponent(size, precision - 1, letter);
    match text.split_once(letter) {
        Some((digits, power)) if !keep_zeros => format!("{}{letter}{power}", trimmed(digits)),
        _ => text,
    }
}

/// Removes trailing zeros after the dot.
fn trimmed(digits: &str) -> &str {
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    }
}

#[cfg(test)]
mod tests {
    use super::{Value, format};

    fn filled(template: &str) -> Result<String, String> {
        format(template, &|name| {
            Some(match name {
                "n" => Value::Int(-1234),
                "x" => Value::Float(1_234_567.891),
                "s" => Value::from("it's"),
                "flag" => Value::Bool(true),
                "list" => Value::list(vec![Value::from("a"), Value::Int(1)]),
                "width" => Value::Int(8),
                _ => return None,
            })
        })
    }

    #[test]
    fn fields_are_formatted_as_in_python() {
        for (template, wanted) in [
            (
                "{n} {x} {s} {flag} {list}",
                "-1234 1234567.891 it's True ['a', 1]",
            ),
            ("{{{n}}}", "{-1234}"),
            ("{s!r:>8}|{s:^8}|{s:*<6.2}", "  \"it's\"|  it's  |it****"),
            (
                "{n:,}|{n:08d}|{n:+}|{n:x}|{n:#b}",
                "-1,234|-0001234|-1234|-4d2|-0b10011010010",
            ),
            (
                "{x:.2f}|{x:,.1f}|{x:e}|{x:g}|{x:.3}",
                "1234567.89|1,234,567.9|1.234568e+06|1.23457e+06|1.23e+06",
            ),
            (
                "{flag:d}|{flag:3}|{n:.1%}|{x:>{width}.0f}",
                "1|  1|-123400.0%| 1234568",
            ),
            ("{n:_}|{x:=+15.1f}", "-1_234|+     1234567.9"),
        ] {
            assert_eq!(filled(template).as_deref(), Ok(wanted), "{template}");
        }
    }

    #[test]
    fn invalid_templates_are_refused() {
        for template in [
            "{",
            "}",
            "{n",
            "{}",
            "{0}",
            "{n.real}",
            "{list[0]}",
            "{none}",
            "{s:d}",
            "{n:s}",
            "{n:99999}",
            "{n:.999999999}",
            "{list:>5}",
            "{n:{width:{width}}}",
            "{n!x}",
            "{n:q}",
        ] {
            assert!(
                filled(template).is_err(),
                "{template}: {:?}",
                filled(template)
            );
        }
    }
}
