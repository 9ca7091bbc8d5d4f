//! Texts of the query engine, as far as they are known: what each means, and how it reads better. Behind another process
//! an error is often nothing but its text.
use super::{Condition, Error, ErrorKind};

/// What the engine puts before the text of an inner error.
const WAYS: &[&str] = &[
    "Arrow error: ",
    "Cast error: ",
    "Compute error: ",
    "Error during planning: ",
    "Execution error: ",
    "External error: ",
    "Internal error: ",
    "Invalid argument error: ",
    "Parser error: ",
    "This feature is not implemented: ",
];

/// A text without the ways that it took and without the advice to report a fault, on one line.
pub(super) fn without_advice(text: &str) -> String {
    let text = text.split("\nThis issue was likely caused by a bug in DataFusion").next().unwrap_or_default();
    let mut text = text.split("\n\nbacktrace:").next().unwrap_or_default();
    while let Some(rest) = WAYS.iter().find_map(|way| text.strip_prefix(way)) {
        text = rest;
    }
    text.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// A text as the rest of a sentence: its first word in lower case, unless it is a name.
pub(super) fn lower_case(text: &str) -> String {
    let word = text.split([' ', ':', ',']).next().unwrap_or_default();
    let mut letters = word.chars();
    match letters.next() {
        Some(first) if first.is_uppercase() && letters.clone().all(char::is_lowercase) => {
            first.to_lowercase().chain(text.chars().skip(1)).collect()
        }
        _ => text.to_owned(),
    }
}

/// What stands between two marks, the first of which starts the text.
fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    text.strip_prefix(start)?.split_once(end).map(|(inner, _)| inner)
}

/// The error that a text stands for, if it is one that statements run into.
pub(super) fn known(text: &str) -> Option<Error> {
    of_values(text)
        .or_else(|| of_names(text))
        .or_else(|| of_plans(text))
        .or_else(|| of_syntax_tree(text))
        .or_else(|| of_overflow(text))
}

/// What functions say of results that do not fit, each in words of its own.
fn of_overflow(text: &str) -> Option<Error> {
    // Between quotes stand values, which may read like anything.
    if text.contains(['\'', '"']) || !(text.contains("overflow") || text.contains("Overflow")) {
        return None;
    }
    let text = match text {
        "Arithmetic Overflow in AvgAccumulator" => "an average".to_owned(),
        // `Int64Array overflow on abs(-9223372036854775808)`
        _ => match text.split_once("overflow on ").or(text.split_once("Overflow happened on ")) {
            Some((_, what)) => what.to_owned(),
            None => return Some(Error::out_of_range(lower_case(text))),
        },
    };
    Some(Error::out_of_range(format!("{text} does not fit its type; cast to a larger one first")))
}

/// The planner shows what it does not plan as a syntax tree of many lines; its first word says what it is.
fn of_syntax_tree(text: &str) -> Option<Error> {
    let tree = match text.strip_prefix("Unsupported ast node ") {
        Some(tree) => tree.strip_prefix("in sqltorel: ").unwrap_or(tree),
        None if text.contains("Span(Location(") => text.rsplit_once("Unsupported").map_or(text, |(_, rest)| rest),
        None => return None,
    };
    let word = tree.split(['{', '(']).next().unwrap_or_default().trim();
    let word = word.rsplit([' ', ':']).next().unwrap_or_default();
    let mut name = String::new();
    for letter in word.chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push(' ');
        }
        name.extend(letter.to_uppercase());
    }
    let instead = match word {
        "Pivot" => "; write an aggregate with FILTER (WHERE …) for each value, and GROUP BY the rest",
        "Unpivot" => "; write a SELECT for each column, with UNION ALL between them",
        _ => "",
    };
    let what = if name.is_empty() { "this form of SQL" } else { &name };
    Some(Error::unsupported(format!("{what} is not offered{instead}")))
}

/// What a value did.
fn of_values(text: &str) -> Option<Error> {
    let invalid = |condition, text: String| Some(Error::invalid(text).with(condition));
    if text.starts_with("Divide by zero") {
        let text = "division by zero; where the divisor may be 0, nullif(divisor, 0) gives NULL instead";
        return invalid(Condition::DivisionByZero, text.to_owned());
    }
    if let Some(rest) = text.strip_prefix("Arithmetic overflow: ") {
        let what = rest.strip_prefix("Overflow happened on: ").unwrap_or(rest);
        return Some(Error::out_of_range(format!("{what} does not fit its type; cast to a larger one first")));
    }
    // `Can't cast value 300 to type Int8`
    if let Some((value, to)) = text.strip_prefix("Can't cast value ").and_then(|rest| rest.rsplit_once(" to type ")) {
        return Some(Error::out_of_range(format!("{value} does not fit type {to}")));
    }
    if text.contains("to store in a Decimal") {
        return Some(Error::out_of_range(lower_case(text)));
    }
    // `Cannot cast string 'x' to value of Int32 type`
    if let Some(rest) = text.strip_prefix("Cannot cast string ").or(text.strip_prefix("Cannot cast value "))
        && let Some((value, to)) = rest.rsplit_once(" to value of ")
    {
        let to = to.trim_end_matches(" type");
        return invalid(cast_to(to), format!("{value} cannot be read as {to}"));
    }
    if text.starts_with("Cannot cast string ") {
        return invalid(Condition::BadCast, lower_case(text));
    }
    // `Error parsing timestamp from 'x': error parsing date`
    if let Some(rest) = text.strip_prefix("Error parsing timestamp from ") {
        let value = rest.rsplit_once(": ").map_or(rest, |(value, _)| value);
        return invalid(Condition::BadDateTime, format!("{value} cannot be read as a timestamp"));
    }
    let of_time = ["Invalid input syntax for type interval", "Invalid timezone", "Failed to parse "];
    if of_time.iter().any(|start| text.starts_with(start)) {
        return invalid(Condition::BadDateTime, lower_case(text));
    }
    if let Some(part) = between(text, "Date part '", "' not supported") {
        let text = format!(
            "{part:?} is no part of a date or time; use year, quarter, month, week, day, dow, doy, hour, minute, second, millisecond, microsecond, nanosecond or epoch"
        );
        return invalid(Condition::BadArgument, text);
    }
    if text.starts_with("Unsupported date_trunc granularity") {
        return invalid(Condition::BadArgument, lower_case(text));
    }
    if text.starts_with("regex parse error") {
        return invalid(Condition::BadPattern, text.to_owned());
    }
    None
}

fn cast_to(data_type: &str) -> Condition {
    let times = ["Date", "Time", "Interval", "Duration"];
    if times.iter().any(|time| data_type.starts_with(time)) { Condition::BadDateTime } else { Condition::BadCast }
}

/// A name that means nothing, or too much.
fn of_names(text: &str) -> Option<Error> {
    if let Some(table) = between(text, "table '", "' not found") {
        let name = table.strip_prefix("ancho.").unwrap_or(table);
        let name = name.strip_prefix("public.").unwrap_or(name);
        return Some(Error::not_found(format!("table {name} does not exist")));
    }
    if let Some(name) = between(text, "Invalid function '", "'") {
        let nearest = text.split_once("Did you mean '").and_then(|(_, rest)| rest.split_once('\''));
        let advice = nearest.map_or(String::new(), |(nearest, _)| format!("; did you mean {nearest}?"));
        return Some(
            Error::invalid(format!("function {name} does not exist{advice}")).with(Condition::UnknownFunction),
        );
    }
    // All forms that a function has are listed; what was given says more.
    if let Some((function, forms)) = text.split_once("failed to match any signature, errors: ") {
        let given = forms.split("but received ").nth(1).and_then(|rest| rest.split(".,").next());
        let given = given.map_or("these arguments", |given| given.trim_end_matches('.'));
        let text = format!("{} does not take {given}", lower_case(function.trim_end()));
        return Some(Error::invalid(text).with(Condition::UnknownFunction));
    }
    // `… expects 1 arguments but received 2. No function matches the given name and argument types 'abs(Int64)'. …`
    if let Some((before, call)) = text.split_once("No function matches the given name and argument types '") {
        let call = call.split_once("'. ").map_or(call, |(call, _)| call);
        let text = match before.trim_end_matches([' ', '.']).rsplit_once(" expects ") {
            Some((function, count)) => format!("{} expects {count}", lower_case(function)),
            None => format!("there is no function {call}; cast the arguments to types that it takes"),
        };
        return Some(Error::invalid(text).with(Condition::UnknownFunction));
    }
    if let Some(name) = text.strip_prefix("Unsupported SQL type ") {
        let text = format!("type {name} does not exist, or is not offered");
        return Some(Error::invalid(text).with(Condition::UnknownType));
    }
    let unbound = ["No value found for placeholder", "Placeholder "];
    if unbound.iter().any(|start| text.starts_with(start)) {
        return Some(Error::invalid(lower_case(text)).with(Condition::UnboundParameter));
    }
    None
}

/// Marks in the texts of the planner.
const PLANNING: &[(&str, Condition)] = &[
    ("in the GROUP BY clause", Condition::Grouping),
    ("Aggregate functions are not allowed", Condition::Grouping),
    ("Cannot find column with position", Condition::BadPosition),
    ("Order by column out of bounds", Condition::BadPosition),
    ("Order by index starts at 1", Condition::BadPosition),
    ("LIMIT must be", Condition::BadLimit),
    ("OFFSET must be", Condition::BadLimit),
    ("specified more than once", Condition::DuplicateAlias),
    ("must be in GROUP BY", Condition::Grouping),
    ("Cannot infer common", Condition::TypeMismatch),
    ("Join condition must be boolean", Condition::TypeMismatch),
    ("should only return one column", Condition::Syntax),
    ("Inconsistent data length across values list", Condition::Syntax),
    ("not found in schema", Condition::UnknownColumn),
    ("Cannot coerce", Condition::TypeMismatch),
    ("Cannot get result type for", Condition::TypeMismatch),
    ("have different number of columns", Condition::Syntax),
    ("Column count doesn't match", Condition::Syntax),
    ("Projections require unique expression names", Condition::DuplicateColumn),
    ("Unsupported CAST from", Condition::NoCast),
    ("Casting from", Condition::NoCast),
];

fn of_plans(text: &str) -> Option<Error> {
    if text.starts_with("Physical plan does not support logical expression") {
        return Some(Error::unsupported(
            "a subquery in this place or form is not offered: one that refers to the outer query and stands for a value is tied \
             to it by `=`; write it as a join",
        ));
    }
    if text.starts_with("Substring without for/from") {
        return Some(
            Error::invalid("substring needs a position: write substring(text FROM 2 FOR 3)").with(Condition::Syntax),
        );
    }
    if text.ends_with("not currently supported") || text.ends_with("not supported") {
        return Some(Error::unsupported(lower_case(text)));
    }
    let (_, condition) = PLANNING.iter().find(|(mark, _)| text.contains(mark))?;
    Some(Error::new(ErrorKind::Invalid, lower_case(text)).with(*condition))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_statements_run_into_has_its_own_state_and_one_sentence() {
        for (text, state, told) in [
            ("Arrow error: Divide by zero error", "22012", "division by zero;"),
            ("Arithmetic overflow: Overflow happened on: 127 + 1", "22003", "127 + 1 does not fit its type"),
            ("Cast error: Can't cast value 300 to type Int8", "22003", "300 does not fit type Int8"),
            (
                "Cast error: Cannot cast string 'to type Int8' to value of Int32 type",
                "22018",
                "'to type Int8' cannot be read as Int32",
            ),
            ("Cast error: Cannot cast string 'x' to value of Date32 type", "22007", "'x' cannot be read as Date32"),
            (
                "Error parsing timestamp from 'a: b': error parsing date",
                "22007",
                "'a: b' cannot be read as a timestamp",
            ),
            ("Date part 'nonsense' not supported", "22023", "\"nonsense\" is no part"),
            ("table 'ancho.public.t' not found", "42P01", "table t does not exist"),
            ("table 'ancho.system.t' not found", "42P01", "table system.t does not exist"),
            (
                "Invalid function 'flor'.\nDid you mean 'floor'?",
                "42883",
                "function flor does not exist; did you mean floor?",
            ),
            (
                "Internal error: Function 'sum' failed to match any signature, errors: Function 'sum' requires Int64, but \
                 received String (DataType: Utf8).,Function 'sum' requires Decimal, but received String (DataType: Utf8).\n\
                 This issue was likely caused by a bug in DataFusion's code. Please help",
                "42883",
                "function 'sum' does not take String (DataType: Utf8)",
            ),
            (
                "Unsupported ast node Pivot { table: Table { name: ObjectName([Identifier(Ident { value: \"w\" })]) } } in \
                 create_relation",
                "0A000",
                "PIVOT is not offered; write an aggregate",
            ),
            ("Unsupported ast node in sqltorel: MatchAgainst { columns: [] }", "0A000", "MATCH AGAINST is not offered"),
            (
                "Unsupported JOIN operator AsOf { match_condition: Identifier(Ident { span: Span(Location(1,2)..Location(1,3)) }) }",
                "0A000",
                "AS OF is not offered",
            ),
            (
                "Compute error: Int64Array overflow on abs(-9223372036854775808)",
                "22003",
                "abs(-9223372036854775808) does not fit",
            ),
            ("Arithmetic Overflow in AvgAccumulator", "22003", "an average does not fit its type"),
            ("Signed integer overflow in LCM(1, 2)", "22003", "signed integer overflow in LCM"),
            ("Cannot infer common argument type for comparison operation Utf8 = Int64", "42804", "cannot infer"),
        ] {
            let error = known(&without_advice(text)).unwrap_or_else(|| panic!("{text}"));
            assert!(error.sqlstate() == state && error.message.starts_with(told), "{error}");
        }
        for text in ["a value with Divide by zero in it", "Something else", "cannot read 'overflow' as a color"] {
            assert_eq!(known(text), None);
        }
    }
}
