//! Text of values as Python's `str()` and `repr()` return it.

use crate::workflow::values::value::Value;

impl Value {
    /// Python's `str()`, used where the peer compares or prints values.
    pub fn python_str(&self) -> String {
        match self {
            Self::Null => "None".to_owned(),
            Self::Bool(true) => "True".to_owned(),
            Self::Bool(false) => "False".to_owned(),
            Self::Int(i) => i.to_string(),
            Self::Float(f) => python_float(*f),
            Self::Text(text) => text.to_string(),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(Self::python_repr).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Dict(map) => {
                let entries = map.iter();
                let entries: Vec<String> = entries
                    .map(|(key, v)| format!("{}: {}", python_quoted(key), v.python_repr()))
                    .collect();
                format!("{{{}}}", entries.join(", "))
            }
            other => other.to_json().to_string(),
        }
    }

    /// Python's `repr()`, used within lists and dictionaries.
    pub(crate) fn python_repr(&self) -> String {
        match self {
            Self::Text(text) => python_quoted(text),
            other => other.python_str(),
        }
    }
}

/// Python's text of a number: an exponent has a sign and two digits, below 1e-4 and from 1e16 on.
pub(crate) fn python_float(f: f64) -> String {
    if !f.is_finite() {
        return f.to_string().to_lowercase();
    }
    let size = f.abs();
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        let text = format!("{f:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(rest) => ('-', rest),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    if f.fract() == 0.0 {
        format!("{f:.1}")
    } else {
        f.to_string()
    }
}

fn python_quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

#[cfg(test)]
mod tests {
    use super::Value;

    #[test]
    fn plain_values_print_as_in_python() {
        let text = |v: Value| v.python_str();
        assert_eq!(text(Value::Bool(true)), "True");
        assert_eq!(text(Value::Null), "None");
        assert_eq!(text(Value::Float(1.0)), "1.0");
        assert_eq!(text(Value::Int(1)), "1");
        assert_eq!(text(Value::Float(0.1 + 0.2)), "0.30000000000000004");
        assert_eq!(text(Value::Float(1e16)), "1e+16");
        assert_eq!(text(Value::Float(-2.5e-7)), "-2.5e-07");
        let list = vec![Value::from("it's"), Value::from("a\n"), Value::Null];
        let map = Value::dict([("k", Value::list(list))]);
        assert_eq!(text(map), r#"{'k': ["it's", 'a\n', None]}"#);
    }
}
