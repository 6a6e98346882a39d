//! Random command trees: commands that are marked by unique words, put together in every way that bash knows.

use proptest::prelude::*;

/// A command text and the words that mark its simple commands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    pub(crate) text: String,
    pub(crate) leaves: Vec<usize>,
    /// Here-documents that start after the next line end.
    documents: String,
}

/// The shape of a tree.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// A command, how its words are quoted and what stands around them.
    Leaf {
        kind: usize,
        quoting: u8,
        blanks: u8,
    },
    Join(u8, Box<Shape>, Box<Shape>),
    Wrap(u8, Box<Shape>),
    /// A command with the tree inside of one of its words.
    Inside {
        kind: usize,
        how: u8,
        inner: Box<Shape>,
    },
}

/// Trees whose leaves are of so many kinds.
pub(crate) fn shapes(kinds: usize, depth: u32, size: u32) -> impl Strategy<Value = Shape> {
    let leaf = (0..kinds, any::<u8>(), any::<u8>())
        .prop_map(|(kind, quoting, blanks)| Shape::Leaf { kind, quoting, blanks });
    leaf.prop_recursive(depth, size, 2, move |inner| {
        prop_oneof![
            (any::<u8>(), inner.clone(), inner.clone()).prop_map(|(how, a, b)| Shape::Join(
                how,
                Box::new(a),
                Box::new(b)
            )),
            (any::<u8>(), inner.clone()).prop_map(|(how, a)| Shape::Wrap(how, Box::new(a))),
            (0..kinds, any::<u8>(), inner).prop_map(|(kind, how, a)| Shape::Inside {
                kind,
                how,
                inner: Box::new(a)
            }),
        ]
    })
}

/// Writes a tree as a command text. `name` returns the words of a command of a kind, and gets the number of the command.
pub(crate) fn render(shape: &Shape, name: &dyn Fn(usize, usize) -> String) -> Tree {
    rendered(shape, name, true)
}

/// The same, with the words as they are.
pub(crate) fn render_plain(shape: &Shape, name: &dyn Fn(usize, usize) -> String) -> Tree {
    rendered(shape, name, false)
}

fn rendered(shape: &Shape, name: &dyn Fn(usize, usize) -> String, quotes: bool) -> Tree {
    let mut writer = Writer { name, next: 0, quotes };
    let mut tree = writer.write(shape);
    tree.finish();
    tree
}

struct Writer<'a> {
    name: &'a dyn Fn(usize, usize) -> String,
    next: usize,
    quotes: bool,
}

impl Tree {
    /// Ends the line, if here-documents have to start.
    fn finish(&mut self) {
        if !self.documents.is_empty() {
            self.text.push('\n');
            self.text.push_str(&std::mem::take(&mut self.documents));
        }
    }

    /// Returns `true` if `;` may not follow.
    fn ends_line(&self) -> bool {
        self.text.ends_with('\n') || self.text.ends_with('&')
    }

    fn closed(mut self) -> Self {
        self.finish();
        if !self.ends_line() {
            self.text.push(';');
        }
        self
    }
}

impl Writer<'_> {
    fn command(&mut self, kind: usize) -> (usize, String) {
        let number = self.next;
        self.next += 1;
        (kind, (self.name)(kind, number))
    }

    fn write(&mut self, shape: &Shape) -> Tree {
        match shape {
            Shape::Leaf { kind, quoting, blanks } => {
                let (kind, words) = self.command(*kind);
                let how = if self.quotes { *quoting } else { 7 };
                let words: Vec<String> = words.split(' ').map(|word| quoted(word, how)).collect();
                let blank = [" ", "  ", "\t", " \\\n "][usize::from(*blanks) % 4];
                let extra = [
                    "",
                    " 'x; y'",
                    " \"a | b\"",
                    " \\; z",
                    " $HOME",
                    " # c\n",
                    " 2>&1",
                    " $'a\\'b'",
                ];
                let extra = extra[usize::from(*blanks / 4) % extra.len()];
                let text = words.join(blank) + extra;
                Tree { text, leaves: vec![kind], documents: String::new() }
            }
            Shape::Join(how, one, other) => {
                let one = self.write(one);
                let other = self.write(other);
                join(*how, one, other)
            }
            Shape::Wrap(how, inner) => {
                let inner = self.write(inner);
                wrap(*how, inner)
            }
            Shape::Inside { kind, how, inner } => {
                let (kind, words) = self.command(*kind);
                let mut inner = self.write(inner);
                inner.finish();
                inside(*how, kind, &words, inner)
            }
        }
    }
}

/// Writes a word in another way.
fn quoted(word: &str, how: u8) -> String {
    let (first, rest) = word.split_at(1);
    match how % 8 {
        0 => format!("'{word}'"),
        1 => format!("\"{word}\""),
        2 => format!("{first}'{rest}'"),
        3 => format!("\"{first}\"{rest}"),
        4 => format!("\\{word}"),
        5 => format!("$'{word}'"),
        6 if !rest.is_empty() => format!("{first}\\\n{rest}"),
        _ => word.to_owned(),
    }
}

fn join(how: u8, mut one: Tree, other: Tree) -> Tree {
    let operator = ["; ", " && ", " || ", " | ", " & ", "\n", " |& ", ";", "&&", " && # c\n"]
        [usize::from(how) % 10];
    // Here-documents, comments and `&` end the line.
    if one.text.ends_with('\n') || one.text.ends_with('&') || !one.documents.is_empty() {
        one.finish();
    } else {
        one.text.push_str(operator);
    }
    one.text.push_str(&other.text);
    one.leaves.extend(other.leaves);
    one.documents.push_str(&other.documents);
    one
}

fn wrap(how: u8, inner: Tree) -> Tree {
    let inner = inner.closed();
    let text = &inner.text;
    let text = match how % 14 {
        0 => format!("{{ {text} }}"),
        1 => format!("( {text} )"),
        2 => format!("if {text} then :; fi"),
        3 => format!("if :; then {text} else :; fi"),
        4 => format!("while {text} do break; done"),
        5 => format!("for x in 1 2; do {text} done"),
        6 => format!("case x in (x) {text} esac"),
        7 => format!("f() {{ {text} }}"),
        8 => format!("{{ ! {{ {text} }}; }}"),
        9 => format!("until :; do {text} done"),
        10 => format!("for ((i = 0; i < 3; i++)); do {text} done"),
        11 => format!("[[ -n x && y =~ ^(a|b)$ ]] && {{ {text} }}"),
        12 => format!("if :; then :; elif :; then {text} fi"),
        _ => format!("{{ {text} }} >&2"),
    };
    Tree { text, leaves: inner.leaves, documents: String::new() }
}

fn inside(how: u8, kind: usize, words: &str, inner: Tree) -> Tree {
    let Tree { text: within, mut leaves, .. } = inner;
    leaves.push(kind);
    let text = match how % 13 {
        0 => format!("{words} $( {within}\n)"),
        1 => format!("{words} \"$( {within}\n)\""),
        2 if !within.contains(['`', '\\']) => format!("{words} ` {within}\n`"),
        3 => format!("{words} <( {within}\n)"),
        4 => format!("{words} \"a${{x:-$( {within}\n)}}b\""),
        5 if !within.contains(['\'', '"', '\\', '#']) => {
            format!("{words} $(( 1 + $( {within}\n) ))")
        }
        6 => format!("{words} < <( {within}\n)"),
        7 => {
            let text = format!("{words} <<E{}", leaves.len());
            let end = leaves.len();
            let body = format!("a 'b cmdx\ncmdx\n E{end}\nE{end} \n$( {within}\n)\nE{end}\n");
            return Tree { text, leaves, documents: body };
        }
        8 => format!("x=$( {within}\n) {words}"),
        9 => format!("{words} <<< \"$( {within}\n)\""),
        10 => format!("{words} x$( {within}\n)y\"z\""),
        11 => format!("{words} >( {within}\n)"),
        _ => format!("{words} ${{x:+$( {within}\n)}}"),
    };
    Tree { text, leaves, documents: String::new() }
}
