//! Renders Markdown of models and users as HTML, without their own markup.

use std::mem;

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html::push_html};

/// Renders a text. HTML in it is shown as text, links use web or mail addresses only, and images become their texts.
pub(crate) fn html(text: &str) -> String {
    blocks(text).concat()
}

/// Renders a text as separate top-level blocks: while a text grows, the first blocks stay the same.
pub(crate) fn blocks(text: &str) -> Vec<String> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let (mut blocks, mut block, mut depth) = (Vec::new(), Vec::new(), 0_usize);
    let mut safe = Safe { heading: 2, ..Safe::default() };
    for event in Parser::new_ext(text, options) {
        match &event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
        block.extend(safe.event(event));
        if depth == 0 {
            let mut rendered = String::new();
            push_html(&mut rendered, mem::take(&mut block).into_iter());
            blocks.push(rendered);
        }
    }
    blocks
}

/// The state needed to make events safe.
#[derive(Default)]
struct Safe {
    /// The level of the last heading, so that none skips a level.
    heading: usize,
    /// Whether each open link is rendered as a link.
    links: Vec<bool>,
    /// The rendered level of each open heading.
    headings: Vec<HeadingLevel>,
}

impl Safe {
    fn event<'a>(&mut self, event: Event<'a>) -> Option<Event<'a>> {
        Some(match event {
            Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
            Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
            Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
            Event::Start(Tag::Link { dest_url, link_type, title, id }) => {
                let is_shown = is_address(&dest_url);
                self.links.push(is_shown);
                return is_shown.then_some(Event::Start(Tag::Link {
                    link_type,
                    dest_url,
                    title,
                    id,
                }));
            }
            Event::End(TagEnd::Link) => {
                return self.links.pop().unwrap_or_default().then_some(event);
            }
            Event::Start(Tag::Image { .. }) => Event::Text(CowStr::Borrowed("[image: ")),
            Event::End(TagEnd::Image) => Event::Text(CowStr::Borrowed("]")),
            Event::Start(Tag::Heading { level, .. }) => {
                self.heading = (level as usize + 2).min(self.heading + 1).min(6);
                let level = HeadingLevel::try_from(self.heading).unwrap_or(HeadingLevel::H6);
                self.headings.push(level);
                Event::Start(Tag::Heading {
                    level,
                    id: None,
                    classes: Vec::new(),
                    attrs: Vec::new(),
                })
            }
            Event::End(TagEnd::Heading(level)) => {
                Event::End(TagEnd::Heading(self.headings.pop().unwrap_or(level)))
            }
            event => event,
        })
    }
}

/// Returns `true` for addresses that a reader may follow.
fn is_address(address: &str) -> bool {
    let scheme = address.split(':').next().unwrap_or_default().to_ascii_lowercase();
    address.contains(':') && matches!(&*scheme, "http" | "https" | "mailto")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_is_rendered() {
        let text = "# Title\n\nSome *words* and `code`.\n\n```rust\nlet a = \"<b>\";\n```\n\n| a |\n|---|\n| 1 |\n";
        assert_eq!(
            html(text),
            "<h3>Title</h3>\n<p>Some <em>words</em> and <code>code</code>.</p>\n\
             <pre><code class=\"language-rust\">let a = \"&lt;b&gt;\";\n</code></pre>\n\
             <table><thead><tr><th>a</th></tr></thead><tbody>\n<tr><td>1</td></tr>\n</tbody></table>\n"
        );
    }

    #[test]
    fn nothing_in_a_text_becomes_markup_or_an_address_that_does_something() {
        for text in [
            "<script>alert(1)</script>",
            "a <img src=x onerror=alert(1)> b",
            "[a](javascript:alert(1))",
            "[a](JaVaScRiPt:alert(1))",
            "[a](&#106;avascript:alert(1))",
            "[a](data:text/html,x)",
            "[a](/sign-out)",
            "[a](//evil.example)",
            "<javascript:alert(1)>",
            "![a](https://evil.example/pixel.png)",
            "[a]: javascript:alert(1)\n\n[a]",
            "<div\n\nonclick=alert(1)>x</div>",
            "<!-- --><svg onload=alert(1)>",
            "# <style>*{display:none}</style>",
            "| <b onmouseover=alert(1)> |\n|---|\n",
            "```\"><script>alert(1)</script>\nx\n```",
            "&lt;script&gt;alert(1)&lt;/script&gt;",
        ] {
            let shown = html(text);
            for bad in ["<script", "<img", "<svg", "<style", "<div", "<b", "href=", "<a"] {
                assert!(!shown.contains(bad), "{text} is shown as {shown}");
            }
        }
        assert_eq!(
            html("[a](https://example.org/?a=\"b\")"),
            "<p><a href=\"https://example.org/?a=%22b%22\">a</a></p>\n"
        );
    }

    #[test]
    fn blocks_at_the_beginning_stay_while_a_text_grows() {
        let text = "First *one*.\n\n- a\n- b\n\n```\ncode\n```\n\nLast.";
        let all = blocks(text);
        assert_eq!(all.len(), 4);
        for end in text.char_indices().map(|it| it.0) {
            let shown = blocks(&text[..end]);
            let stable = shown.len().saturating_sub(1);
            assert_eq!(shown[..stable], all[..stable], "{:?}", &text[..end]);
        }
    }

    #[test]
    fn headings_skip_no_level() {
        assert_eq!(html("### a\n\n# b\n\n###### c"), "<h3>a</h3>\n<h3>b</h3>\n<h4>c</h4>\n");
    }
}
