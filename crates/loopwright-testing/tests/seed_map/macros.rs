//! Expands the declarative macros of a source file, as far as the items that they declare.

use std::{collections::BTreeMap, iter::Peekable, slice};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// A macro with one rule, as all macros are that declare items.
pub(super) struct Macro {
    matcher: Vec<Part>,
    transcriber: Vec<Part>,
}

/// A part of a matcher or of a transcriber.
enum Part {
    Token(TokenTree),
    Group(Delimiter, Vec<Part>),
    /// `$name:fragment`, or `$name` in a transcriber.
    Variable(String, String),
    /// `$(…)` with the separator between its repetitions.
    Repeated(Vec<Part>, Option<char>),
}

/// What the variables of a matcher stand for.
#[derive(Clone, Default)]
struct Bindings {
    once: BTreeMap<String, TokenStream>,
    repeated: Vec<Vec<Self>>,
}

/// The sides of a rule; only those of a matcher say what a variable may stand for.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Matcher,
    Transcriber,
}

type Tokens<'a> = Peekable<slice::Iter<'a, TokenTree>>;

impl Macro {
    /// Reads the first rule of a `macro_rules!` definition.
    pub(super) fn parse(definition: TokenStream) -> Option<Self> {
        let mut groups = definition.into_iter().filter_map(|token| match token {
            TokenTree::Group(group) => Some(group.stream()),
            _ => None,
        });
        let matcher = parts(groups.next()?, Side::Matcher);
        Some(Self { matcher, transcriber: parts(groups.next()?, Side::Transcriber) })
    }

    /// Returns what a call with this input expands to, or `None` if the input does not match.
    pub(super) fn expand(&self, input: TokenStream) -> Option<TokenStream> {
        let input: Vec<TokenTree> = input.into_iter().collect();
        let bindings = match_all(&self.matcher, &input)?;
        Some(transcribe(&self.transcriber, &[&bindings]))
    }
}

fn parts(tokens: TokenStream, side: Side) -> Vec<Part> {
    let mut tokens = tokens.into_iter();
    let mut parts = Vec::new();
    while let Some(token) = tokens.next() {
        parts.push(match token {
            TokenTree::Punct(punct) if punct.as_char() == '$' => match tokens.next() {
                Some(TokenTree::Group(group)) => {
                    let separator = match tokens.next().map(|token| token.to_string()) {
                        Some(operator) if "*+?".contains(&operator) => None,
                        separator => {
                            tokens.next();
                            separator.and_then(|it| it.chars().next())
                        }
                    };
                    Part::Repeated(self::parts(group.stream(), side), separator)
                }
                Some(name) => {
                    let fragment = match side {
                        Side::Matcher => tokens.nth(1).map(|it| it.to_string()).unwrap_or_default(),
                        Side::Transcriber => String::new(),
                    };
                    Part::Variable(name.to_string(), fragment)
                }
                None => break,
            },
            TokenTree::Group(group) => {
                Part::Group(group.delimiter(), self::parts(group.stream(), side))
            }
            token => Part::Token(token),
        });
    }
    parts
}

fn match_all(parts: &[Part], input: &[TokenTree]) -> Option<Bindings> {
    let mut tokens = input.iter().peekable();
    let bindings = match_parts(parts, &mut tokens)?;
    tokens.next().is_none().then_some(bindings)
}

fn match_parts(parts: &[Part], tokens: &mut Tokens<'_>) -> Option<Bindings> {
    let mut bindings = Bindings::default();
    for part in parts {
        match part {
            Part::Token(expected) => {
                tokens.next_if(|token| token.to_string() == expected.to_string())?;
            }
            Part::Group(delimiter, inner) => {
                let group = next_group(tokens, *delimiter)?;
                let group: Vec<TokenTree> = group.stream().into_iter().collect();
                let Bindings { once, repeated } = match_all(inner, &group)?;
                bindings.once.extend(once);
                bindings.repeated.extend(repeated);
            }
            Part::Variable(name, fragment) => {
                bindings.once.insert(name.clone(), next_fragment(tokens, fragment)?);
            }
            Part::Repeated(inner, separator) => {
                bindings.repeated.push(match_repeated(inner, *separator, tokens));
            }
        }
    }
    Some(bindings)
}

fn match_repeated(
    parts: &[Part],
    separator: Option<char>,
    tokens: &mut Tokens<'_>,
) -> Vec<Bindings> {
    let mut rounds = Vec::new();
    loop {
        let mut ahead = tokens.clone();
        let is_separated = rounds.is_empty()
            || separator.is_none_or(|it| ahead.next().is_some_and(|token| is(token, it)));
        let before = ahead.len();
        match match_parts(parts, &mut ahead) {
            Some(bindings) if is_separated && ahead.len() < before => {
                rounds.push(bindings);
                *tokens = ahead;
            }
            _ => return rounds,
        }
    }
}

fn next_group<'a>(tokens: &mut Tokens<'a>, delimiter: Delimiter) -> Option<&'a Group> {
    match tokens.peek() {
        Some(TokenTree::Group(group)) if group.delimiter() == delimiter => {
            tokens.next();
            Some(group)
        }
        _ => None,
    }
}

/// Takes one token, or for types and the like all tokens up to a comma or semicolon outside of angle brackets.
fn next_fragment(tokens: &mut Tokens<'_>, fragment: &str) -> Option<TokenStream> {
    match fragment {
        "ident" => tokens.next_if(|it| matches!(it, TokenTree::Ident(_))).cloned().map(Into::into),
        "literal" => {
            tokens.next_if(|it| matches!(it, TokenTree::Literal(_))).cloned().map(Into::into)
        }
        "tt" => tokens.next().cloned().map(Into::into),
        _ => {
            let mut depth = 0_i32;
            let mut taken = Vec::new();
            while let Some(token) = tokens.next_if(|it| depth > 0 || !(is(it, ',') || is(it, ';')))
            {
                depth += i32::from(is(token, '<')) - i32::from(is(token, '>'));
                taken.push(token.clone());
            }
            (!taken.is_empty()).then(|| taken.into_iter().collect())
        }
    }
}

fn is(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

/// Fills in a transcriber; `scopes` are the bindings of the repetitions around it, the innermost last.
fn transcribe(parts: &[Part], scopes: &[&Bindings]) -> TokenStream {
    parts
        .iter()
        .flat_map(|part| match part {
            Part::Token(token) => token.clone().into(),
            Part::Group(delimiter, inner) => {
                TokenTree::from(Group::new(*delimiter, transcribe(inner, scopes))).into()
            }
            Part::Variable(name, _) => lookup(name, scopes).unwrap_or_default(),
            Part::Repeated(inner, separator) => repeat(inner, *separator, scopes),
        })
        .collect()
}

fn lookup(name: &str, scopes: &[&Bindings]) -> Option<TokenStream> {
    scopes.iter().rev().find_map(|scope| scope.once.get(name).cloned())
}

fn repeat(parts: &[Part], separator: Option<char>, scopes: &[&Bindings]) -> TokenStream {
    let mut names = Vec::new();
    variables(parts, &mut names);
    let rounds = scopes.last().into_iter().flat_map(|scope| &scope.repeated);
    let rounds = rounds
        .filter(|rounds| rounds.iter().any(|round| names.iter().any(|name| round.binds(name))));
    let mut expanded = TokenStream::new();
    for round in rounds.flatten() {
        if let Some(separator) = separator.filter(|_| !expanded.is_empty()) {
            expanded.extend([TokenTree::from(proc_macro2::Punct::new(
                separator,
                proc_macro2::Spacing::Alone,
            ))]);
        }
        let scopes: Vec<&Bindings> = scopes.iter().copied().chain([round]).collect();
        expanded.extend(transcribe(parts, &scopes));
    }
    expanded
}

/// Collects the variables of a repetition, without those of repetitions in it.
fn variables<'a>(parts: &'a [Part], names: &mut Vec<&'a str>) {
    for part in parts {
        match part {
            Part::Variable(name, _) => names.push(name),
            Part::Group(_, inner) => variables(inner, names),
            Part::Token(_) | Part::Repeated(..) => {}
        }
    }
}

impl Bindings {
    fn binds(&self, name: &str) -> bool {
        self.once.contains_key(name)
    }
}

#[cfg(test)]
mod tests {
    use super::Macro;

    #[test]
    fn repetitions_within_repetitions_are_written_once_for_each_match() {
        check(
            "($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {
                enum All { $($name($name),)* }
                $($(#[$doc])* struct $name { $(pub $field: $type,)* })*
            };",
            "/** text */ A { x: Map<K, V>, y: [u8; 2], } B {}",
            "enum All { A(A), B(B), }
            /** text */ struct A { pub x: Map<K, V>, pub y: [u8; 2], }
            struct B {}",
        );
    }

    #[test]
    fn separators_stand_between_repetitions() {
        check("($($name:ident),+; $end:literal) => { $($name)|* ; $end };", "a, b; 1", "a | b ; 1");
    }

    #[test]
    fn input_that_does_not_match_expands_to_nothing() {
        for input in ["1", "a b", "", "(a)"] {
            assert!(parse("($name:ident) => { fn $name() {} };").expand(tokens(input)).is_none());
        }
    }

    fn parse(definition: &str) -> Macro {
        Macro::parse(tokens(definition)).unwrap()
    }

    fn tokens(text: &str) -> proc_macro2::TokenStream {
        text.parse().unwrap()
    }

    #[track_caller]
    fn check(definition: &str, input: &str, expect: &str) {
        let expanded = parse(definition).expand(tokens(input)).unwrap();
        assert_eq!(expanded.to_string(), tokens(expect).to_string());
    }
}
