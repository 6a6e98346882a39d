# Lists the recipes.
default:
    @just --list --unsorted

# Everything that a change has to pass.
check:
    .ci/run

# The tests, or those whose names contain one of the filters.
test *filters:
    scripts/test {{ filters }}

# The tests, in their long form where they have one.
long *filters:
    scripts/test --long {{ filters }}

# Formats the code.
fmt:
    cargo fmt --all

# The lints, as warnings.
lint:
    cargo clippy --workspace --all-targets --all-features

# The documentation of the workspace.
doc *arguments:
    cargo doc --workspace --no-deps --all-features {{ arguments }}

# The benchmarks.
bench *filters:
    cargo bench --workspace --all-features -- {{ filters }}

# What our program, and programs made with other frameworks, cost: builds them, and prints tables.
[positional-arguments]
bench-peers *arguments:
    benches/peers/run "$@"

# A server under load, beside servers of other frameworks.
[positional-arguments]
bench-servers *arguments:
    benches/peers/serve "$@"

# Queued work: steps of workers, claims and tenants, beside other frameworks.
[positional-arguments]
bench-fleet *arguments:
    benches/fleet/run "$@"

# The program, with the arguments given.
demo *arguments:
    cargo run --quiet --bin loopwright -- {{ arguments }}
