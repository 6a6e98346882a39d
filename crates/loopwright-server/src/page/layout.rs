//! The layout of all pages.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use loopwright_core::Timestamp;
use maud::{DOCTYPE, Markup, html};

use super::{assets, visitor::Visitor};
use crate::problem::Problem;

/// The current section of the page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tab {
    Sessions,
    Waiting,
    Agents,
}

/// Renders a page.
pub(crate) fn page(title: &str, visitor: &Visitor, tab: Tab, main: &Markup) -> Response {
    let main = html! { main id="main" tabindex="-1" { (main) } };
    document(StatusCode::OK, title, Some((visitor, tab)), &main)
}

/// Renders a page that follows the events of a session.
pub(crate) fn live_page(title: &str, visitor: &Visitor, live: &str, main: &Markup) -> Response {
    let main = html! { main id="main" tabindex="-1" data-live=(live) { (main) } };
    document(StatusCode::OK, title, Some((visitor, Tab::Sessions)), &main)
}

/// Renders a page for visitors who are not signed in.
pub(crate) fn outside(status: StatusCode, title: &str, main: &Markup) -> Response {
    document(status, title, None, &html! { main id="main" tabindex="-1" { (main) } })
}

/// Shows a problem.
pub(crate) fn problem(problem: &Problem) -> Response {
    let main = html! {
        h1 { (problem.title) }
        p role="alert" { (problem.text()) }
        p { a href="/" { "Sessions" } }
    };
    outside(problem.status(), &problem.title, &main)
}

fn document(
    status: StatusCode,
    title: &str,
    visitor: Option<(&Visitor, Tab)>,
    main: &Markup,
) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Loopwright" }
                link rel="icon" href="data:,";
                link rel="stylesheet" href=(assets::STYLE.address());
                script src=(assets::SCRIPT.address()) defer {}
            }
            body {
                a.skip href="#main" { "Skip to content" }
                header.top {
                    a.brand href="/" { "Loopwright" }
                    @if let Some((visitor, tab)) = visitor { (navigation(visitor, tab)) }
                }
                (main)
            }
        }
    };
    let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    (status, headers, page.into_string()).into_response()
}

fn navigation(visitor: &Visitor, tab: Tab) -> Markup {
    let tabs = [
        ("/", "Sessions", Tab::Sessions),
        ("/waiting", "Waiting", Tab::Waiting),
        ("/agents", "Agents", Tab::Agents),
    ];
    html! {
        nav aria-label="Pages" {
            @for (address, name, of) in tabs {
                a href=(address) aria-current=[(of == tab).then_some("page")] { (name) }
            }
        }
        div.who {
            span { (visitor.principal.name()) }
            @if visitor.cookie.is_some() {
                form method="post" action="/sign-out" {
                    (token(visitor))
                    button.plain { "Sign out" }
                }
            }
        }
    }
}

/// The hidden field of every form.
pub(crate) fn token(visitor: &Visitor) -> Markup {
    html! { input type="hidden" name="csrf" value=(visitor.csrf); }
}

/// A form that consists of one button.
pub(crate) fn button(
    visitor: &Visitor,
    action: &str,
    name: &str,
    fields: &[(&str, &str)],
) -> Markup {
    html! {
        form.inline method="post" action=(action) {
            (token(visitor))
            @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
            button { (name) }
        }
    }
}

/// Shows a time, to the second.
pub(crate) fn time(at: Timestamp) -> Markup {
    let text = at.to_string();
    let shown = text.get(..19).unwrap_or(&text).replace('T', " ");
    html! { time datetime=(text) { (shown) } }
}

/// Shows an amount of money, if there is one.
pub(crate) fn money(dollars: f64) -> Option<String> {
    (dollars > 0.0).then(|| format!("${dollars:.4}"))
}

/// Shows a long number with spaces between thousands.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push('\u{202f}');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        let shown: Vec<String> = [7, 999, 1_000, 1_234_567].map(count).to_vec();
        assert_eq!(shown, ["7", "999", "1\u{202f}000", "1\u{202f}234\u{202f}567"]);
    }
}
