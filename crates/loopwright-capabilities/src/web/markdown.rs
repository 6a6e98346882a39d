//! Conversion of pages to Markdown.

use std::rc::Rc;

use htmd::HtmlToMarkdown;
use html5ever::parse_document;
use html5ever::tendril::TendrilSink as _;
use markup5ever_rcdom::{Node, RcDom};

/// How deep elements may be in each other. Conversion is recursive, and parsing slow where they are deeper.
const MAX_DEPTH: usize = 200;

/// How much is parsed between two looks at the depth.
const STEP: usize = 8 * 1024;

/// Elements that are no part of what a page says.
const LEFT_OUT: [&str; 12] = [
    "script", "style", "noscript", "template", "svg", "iframe", "form", "nav", "header", "footer",
    "aside", "button",
];

/// Converts a page. `None` means that it is too deep to be one.
pub(super) fn convert(html: &str) -> Option<String> {
    if !is_flat(html) {
        return None;
    }
    let converter = HtmlToMarkdown::builder().skip_tags(LEFT_OUT.to_vec()).build();
    converter.convert(html).ok()
}

fn is_flat(html: &str) -> bool {
    let mut parser = parse_document(RcDom::default(), html5ever::ParseOpts::default());
    let mut rest = html;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(STEP));
        parser.process(piece.into());
        rest = after;
        let dom = &parser.tokenizer.sink.sink;
        if last_depth(&dom.document) > MAX_DEPTH {
            return false;
        }
    }
    depth(&parser.finish().document) <= MAX_DEPTH
}

/// Returns how deep the element is that was added last.
fn last_depth(document: &Rc<Node>) -> usize {
    let mut depth = 0;
    let mut node = Rc::clone(document);
    loop {
        let last = node.children.borrow().last().cloned();
        let Some(last) = last else { return depth };
        (node, depth) = (last, depth + 1);
    }
}

/// Returns how deep the deepest element is.
fn depth(document: &Rc<Node>) -> usize {
    let mut deepest = 0;
    let mut open = vec![(Rc::clone(document), 0)];
    while let Some((node, depth)) = open.pop() {
        deepest = deepest.max(depth);
        open.extend(node.children.borrow().iter().map(|child| (Rc::clone(child), depth + 1)));
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::convert;

    #[test]
    fn the_content_of_a_page_is_kept_without_its_navigation() {
        let html = "<html><head><title>T</title><style>p{}</style></head><body><nav>Menu</nav>\
            <main><h1>Head</h1><p>One <a href=\"/x\">link</a>.</p><ul><li>a<li>b</ul>\
            <pre><code>let x;</code></pre></main><script>alert()</script><footer>F</footer></body></html>";
        let markdown = convert(html).unwrap();
        assert!(markdown.contains("# Head") && markdown.contains("[link](/x)"), "{markdown}");
        assert!(markdown.contains("let x;"), "{markdown}");
        for absent in ["Menu", "alert", "p{}"] {
            assert!(!markdown.contains(absent), "{absent} in {markdown}");
        }
    }

    #[test]
    fn a_page_whose_elements_are_too_deep_is_refused_and_one_at_the_limit_is_not() {
        assert_eq!(convert(&"<div>".repeat(400_000)), None);
        assert_eq!(convert(&"<b><div></b>".repeat(100_000)), None);
        let deep = format!("{}text{}", "<div>".repeat(190), "</div>".repeat(190));
        assert_eq!(convert(&deep).unwrap().trim(), "text");
    }
}
