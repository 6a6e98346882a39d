//! The rules of a site for programs.

/// The name that rules may call this program by.
const OWN: &str = "loopwright";

/// Returns `true` if a `robots.txt` lets this program request a path with its query. The longest pattern that matches
/// decides, and of two as long as each other the one that allows.
pub(super) fn allows(text: &str, path: &str) -> bool {
    let own = rules(text, OWN);
    let rules = if own.is_empty() { rules(text, "*") } else { own };
    let matching = rules.into_iter().filter(|(_, pattern)| matches(pattern, path));
    let longest = matching.max_by_key(|(is_allowed, pattern)| (pattern.len(), *is_allowed));
    longest.is_none_or(|(is_allowed, _)| is_allowed)
}

/// Returns the rules for an agent, each with whether it allows.
fn rules<'t>(text: &'t str, agent: &str) -> Vec<(bool, &'t str)> {
    let mut rules = Vec::new();
    let (mut is_ours, mut names_agents) = (false, false);
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let Some((key, value)) = line.split_once(':') else { continue };
        let (key, value) = (key.trim(), value.trim());
        if key.eq_ignore_ascii_case("user-agent") {
            let is_named = value.eq_ignore_ascii_case(agent);
            is_ours = is_named || (names_agents && is_ours);
            names_agents = true;
            continue;
        }
        let is_allowed = key.eq_ignore_ascii_case("allow");
        if is_allowed || key.eq_ignore_ascii_case("disallow") {
            names_agents = false;
            // An empty `Disallow` forbids nothing.
            if is_ours && (is_allowed || !value.is_empty()) {
                rules.push((is_allowed, value));
            } else if is_ours {
                rules.push((true, ""));
            }
        }
    }
    rules
}

/// Returns `true` if a path begins as a pattern says, in which `*` stands for any text and `$` for the end.
fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, is_whole) = match pattern.strip_suffix('$') {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let mut parts = pattern.split('*');
    let Some(mut rest) = path.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return !is_whole || rest.is_empty() };
    for part in between {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    if is_whole { rest.ends_with(last) } else { rest.contains(last) }
}

#[cfg(test)]
mod tests {
    use super::allows;

    #[test]
    fn the_longest_pattern_of_the_own_group_or_else_of_all_decides() {
        let text = "User-agent: *\nDisallow: /private\nAllow: /private/open\nDisallow: /*.pdf$\n\n\
                    User-agent: other\nDisallow: /\n";
        for (path, is_allowed) in [
            ("/", true),
            ("/private/x", false),
            ("/private/open/x", true),
            ("/a.pdf", false),
            ("/a.pdf?x", true),
        ] {
            assert_eq!(allows(text, path), is_allowed, "{path}");
        }
        let named = "User-agent: other\nUser-agent: Loopwright # both\nDisallow: /x\nUser-agent: *\nDisallow: /";
        assert!(allows(named, "/y") && !allows(named, "/x"));
        assert!(allows("User-agent: *\nDisallow:", "/") && allows("<html>", "/"));
    }
}
