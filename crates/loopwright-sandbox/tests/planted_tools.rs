//! What is planted for programs besides git: shells, editors, debuggers, interpreters, package managers. Some obey the
//! folder that they start in; others obey a file of the home, which is a link into the folder, as people keep the
//! settings of their programs in a repository.

use crate::planted::{Case, case};

/// A plant for a program, which the user has set up so before.
const fn tool(
    needs: &'static str,
    name: &'static str,
    before: &'static str,
    planted: &'static [&'static str],
    later: &'static str,
) -> Case {
    Case { before, needs, ..case(name, planted, later) }
}

const SCRIPT: &str = "echo 'require(\"child_process\").execSync(\"./run.sh\")' > x.js";

pub(crate) const CASES: &[Case] = &[
    // Shells and terminals.
    tool(
        "bash",
        "bash's start",
        "touch .bashrc; ln -s $PWD/.bashrc ../home/.bashrc",
        &["echo ./run.sh >> .bashrc"],
        "bash -ic true",
    ),
    tool(
        "bash",
        "bash's login",
        "ln -s $PWD/.bash_profile ../home/.bash_profile",
        &["echo ./run.sh > .bash_profile"],
        "bash -lc true",
    ),
    tool(
        "bash",
        "login of all shells",
        "ln -s $PWD/.profile ../home/.profile",
        &["echo ./run.sh > x; mv x .profile"],
        "bash -lc true",
    ),
    tool(
        "bash",
        "bash's logout",
        "ln -s $PWD/.bash_logout ../home/.bash_logout",
        &["ln run.sh .bash_logout || cp run.sh .bash_logout"],
        "bash -lc exit",
    ),
    tool(
        "zsh",
        "zsh's environment",
        "ln -s $PWD/.zshenv ../home/.zshenv",
        &["echo ./run.sh > .zshenv"],
        "zsh -c true",
    ),
    tool(
        "zsh",
        "zsh's start",
        "mkdir zsh; ln -s $PWD/zsh/.zshrc ../home/.zshrc",
        &["echo ./run.sh > zsh/.zshrc"],
        "zsh -ic true",
    ),
    tool(
        "zsh",
        "zsh's login",
        "ln -s $PWD/.zlogin ../home/.zlogin",
        &["echo ./run.sh > .zlogin"],
        "zsh -lc true",
    ),
    tool(
        "fish",
        "fish's start",
        "mkdir -p .config ../home/.config; ln -s $PWD/.config/fish ../home/.config/fish",
        &["mkdir -p .config/fish/conf.d; echo ./run.sh > .config/fish/conf.d/x.fish"],
        "fish -c true",
    ),
    tool(
        "tcsh",
        "tcsh's start",
        "ln -s $PWD/.tcshrc ../home/.tcshrc",
        &["echo ./run.sh > .tcshrc"],
        "tcsh -c true",
    ),
    tool(
        "mksh",
        "mksh's start",
        "ln -s $PWD/.mkshrc ../home/.mkshrc",
        &["echo ./run.sh > .mkshrc"],
        "mksh -ic true",
    ),
    tool(
        "tmux",
        "tmux's start",
        "ln -s $PWD/.tmux.conf ../home/.tmux.conf",
        &["echo 'run-shell ./run.sh' > .tmux.conf"],
        "export TMUX_TMPDIR=$HOME; tmux -L x new-session -d cat; tmux -L x run-shell true; tmux -L x kill-server",
    ),
    tool(
        "tmux",
        "tmux's start, elsewhere",
        "mkdir -p .config ../home/.config; ln -s $PWD/.config/tmux ../home/.config/tmux",
        &["mkdir .config/tmux; echo 'run-shell ./run.sh' > .config/tmux/tmux.conf"],
        "export TMUX_TMPDIR=$HOME; tmux -L x new-session -d cat; tmux -L x run-shell true; tmux -L x kill-server",
    ),
    tool(
        "screen whoami",
        "screen's start",
        "ln -s $PWD/.screenrc ../home/.screenrc",
        &["echo 'screen ./run.sh' > .screenrc"],
        "SCREENDIR=$HOME/s timeout 5 screen -D -m true",
    ),
    tool(
        "direnv",
        "direnv",
        "mkdir -p ../home/.config/direnv; printf '[whitelist]\\nprefix = [\"/\"]\\n' > ../home/.config/direnv/direnv.toml",
        &["echo ./run.sh > .envrc"],
        "direnv exec . true",
    ),
    tool(
        "direnv",
        "direnv in a folder",
        "mkdir -p ../home/.config/direnv; printf '[whitelist]\\nprefix = [\"/\"]\\n' > ../home/.config/direnv/direnv.toml",
        &["mkdir d; echo ../run.sh > d/x", "mv d/x d/.envrc"],
        "direnv exec d true",
    ),
    tool(
        "direnv",
        "what direnv loads",
        "echo dotenv > .envrc; echo A=1 > .env; direnv allow .",
        &["mkdir t; cp run.sh t/true; echo PATH=$PWD/t:/usr/bin:/bin > .env"],
        "direnv exec . true",
    ),
    tool(
        "direnv",
        "what direnv loads in a folder",
        "mkdir d; echo 'dotenv ./.env.local' > d/.envrc; touch d/.env.local; direnv allow d",
        &["mkdir t; cp run.sh t/true; echo PATH=$PWD/t:/usr/bin:/bin > d/.env.local"],
        "direnv exec d true",
    ),
    tool(
        "direnv",
        "what direnv sources",
        "echo 'source_env_if_exists ./more' > .envrc; direnv allow .",
        &["echo ./run.sh > more"],
        "direnv exec . true",
    ),
    // Linters.
    tool(
        "pylint",
        "pylint's start",
        "echo 'A = 1' > a.py",
        &["printf '[MASTER]\\ninit-hook=import os; os.system(\"./run.sh\")\\n' > .pylintrc"],
        "pylint a.py",
    ),
    tool(
        "pylint",
        "pylint's start, in the settings of the project",
        "echo 'A = 1' > a.py; printf '[project]\\nname = \"x\"\\n' > pyproject.toml",
        &[
            "printf '[tool.pylint.main]\\n\"init\\\\u002dhook\" = \"import os; os.system(\\047./run.sh\\047)\"\\n' >> pyproject.toml",
        ],
        "pylint a.py",
    ),
    // Editors.
    tool(
        "vim",
        "vim in the folder",
        "echo 'set exrc' > ../home/.vimrc",
        &["echo 'silent !./run.sh' > .exrc"],
        "timeout 5 vim -T dumb --not-a-term -c qa!",
    ),
    tool(
        "vim",
        "vim in the folder, by its own name",
        "echo 'set exrc' > ../home/.vimrc",
        &["echo 'call system(\"./run.sh\")' > .vimrc"],
        "timeout 5 vim -T dumb --not-a-term -c qa!",
    ),
    tool(
        "vim",
        "vim's plugins",
        "mkdir .vim; ln -s $PWD/.vim ../home/.vim; touch ../home/.vimrc",
        &["mkdir -p .vim/plugin; echo 'call system(\"./run.sh\")' > .vim/plugin/x.vim"],
        "timeout 5 vim -T dumb --not-a-term -c qa!",
    ),
    tool(
        "nvim",
        "neovim in the folder",
        "mkdir -p ../home/.config/nvim; echo 'set exrc' > ../home/.config/nvim/init.vim",
        &["echo 'call system(\"./run.sh\")' > .nvimrc"],
        "timeout 5 nvim --headless +qa!",
    ),
    tool(
        "nvim",
        "neovim's start",
        "mkdir -p .config ../home/.config; ln -s $PWD/.config/nvim ../home/.config/nvim",
        &["mkdir -p .config/nvim; echo 'os.execute(\"./run.sh\")' > .config/nvim/init.lua"],
        "timeout 5 nvim --headless +qa!",
    ),
    tool(
        "emacs",
        "emacs in the folder",
        "echo '(setq enable-local-variables :all enable-local-eval t)' > ../home/x.el",
        &["echo '((nil . ((eval . (shell-command \"./run.sh\")))))' > .dir-locals.el"],
        "emacs --batch -l ../home/x.el a.txt",
    ),
    tool(
        "emacs",
        "emacs in the folder, the second",
        "echo '(setq enable-local-variables :all enable-local-eval t)' > ../home/x.el; echo '((nil . ((fill-column . 70))))' > .dir-locals.el",
        &["echo '((nil . ((eval . (shell-command \"./run.sh\")))))' > .dir-locals-2.el"],
        "emacs --batch -l ../home/x.el a.txt",
    ),
    tool(
        "emacs",
        "emacs's start",
        "mkdir emacs; ln -s $PWD/emacs/.emacs ../home/.emacs",
        &["echo '(shell-command \"./run.sh\")' > emacs/.emacs"],
        "emacs --batch --load ~/.emacs",
    ),
    tool(
        "emacs",
        "emacs's folder",
        "mkdir .emacs.d; ln -s $PWD/.emacs.d ../home/.emacs.d",
        &["echo '(shell-command \"./run.sh\")' > .emacs.d/init.el"],
        "emacs --batch --load ~/.emacs.d/init.el",
    ),
    // Debuggers and interpreters.
    tool(
        "gdb",
        "gdb",
        "echo 'set auto-load safe-path /' > ../home/.gdbinit",
        &["echo 'shell ./run.sh' > .gdbinit"],
        "gdb -batch -ex quit",
    ),
    tool(
        "gdb",
        "gdb's start",
        "ln -s $PWD/.gdbearlyinit ../home/.gdbearlyinit",
        &["echo 'shell ./run.sh' > .gdbearlyinit"],
        "gdb -batch -ex quit",
    ),
    tool(
        "lldb",
        "lldb",
        "echo 'settings set target.load-cwd-lldbinit true' > ../home/.lldbinit",
        &["echo 'platform shell ./run.sh' > .lldbinit"],
        "lldb --batch -o quit",
    ),
    tool(
        "perl",
        "perl's debugger",
        "",
        &["echo 'system(\"./run.sh\");' > .perldb; chmod 644 .perldb"],
        "PERLDB_OPTS=NonStop perl -d -e 1",
    ),
    tool(
        "python3",
        "python's debugger",
        "echo pass > x.py",
        &["echo '!import os; os.system(\"./run.sh\")' > .pdbrc"],
        "echo c | python3 -m pdb x.py",
    ),
    tool(
        "python3",
        "python's start, for users",
        "",
        &["echo 'import os; os.system(\"./run.sh\")' > usercustomize.py"],
        "PYTHONPATH=. python3 -c pass",
    ),
    tool("irb", "irb", "", &["echo 'system \"./run.sh\"' > .irbrc"], "echo exit | irb"),
    tool("pry", "pry", "", &["echo 'system \"./run.sh\"' > .pryrc"], "echo exit | pry"),
    tool("Rscript", "R", "", &["echo 'system(\"./run.sh\")' > .Rprofile"], "Rscript -e 1"),
    tool(
        "Rscript",
        "R's environment",
        "",
        &["echo 'system(\"./run.sh\")' > x.R; echo R_PROFILE_USER=x.R > .Renviron"],
        "Rscript -e 1",
    ),
    tool(
        "sqlite3",
        "sqlite's start",
        "",
        &["echo '.shell ./run.sh' > .sqliterc"],
        "sqlite3 -init .sqliterc :memory: .quit",
    ),
    tool(
        "rg",
        "ripgrep's settings",
        "",
        &["echo --pre=./run.sh > .ripgreprc"],
        "RIPGREP_CONFIG_PATH=.ripgreprc rg text .",
    ),
    tool(
        "ssh whoami",
        "ssh's settings",
        "",
        &["mkdir .ssh; printf 'Host *\\n\\tProxyCommand ./run.sh\\n' > .ssh/config"],
        "ssh -F .ssh/config localhost",
    ),
    // Package managers, build tools and version control.
    tool(
        "yarn",
        "yarn's program",
        "echo '{}' > package.json",
        &[SCRIPT, "echo 'yarn-path \"./x.js\"' > .yarnrc"],
        "yarn --version",
    ),
    tool(
        "yarn",
        "yarn's program, newer",
        "echo '{}' > package.json",
        &[SCRIPT, "echo 'yarnPath: ./x.js' > .yarnrc.yml"],
        "yarn --version",
    ),
    tool(
        "pnpm",
        "pnpm's hooks",
        "echo '{\"name\":\"x\"}' > package.json",
        &[SCRIPT, "mv x.js .pnpmfile.cjs"],
        "pnpm install --offline",
    ),
    tool(
        "pre-commit",
        "pre-commit",
        "echo 'repos: []' > .pre-commit-config.yaml; pre-commit install; git add .; git commit -qm c",
        &[
            "printf 'repos:\\n- repo: local\\n  hooks:\\n  - {id: x, name: x, entry: ./run.sh, language: system, always_run: true}\\n' > .pre-commit-config.yaml",
        ],
        "git add .; git commit -qm x --allow-empty",
    ),
    tool(
        "bundle",
        "bundler's settings",
        "touch Gemfile",
        &[
            "echo 'system \"./run.sh\"' > x.rb; mkdir .bundle; echo \"BUNDLE_GEMFILE: $PWD/x.rb\" > .bundle/config",
        ],
        "bundle list",
    ),
    tool(
        "mvn javac jar",
        "maven's virtual machine",
        "touch pom.xml",
        &[
            "mkdir t .mvn; cd t; echo 'class A { public static void premain(String a) throws Exception { new ProcessBuilder(\"./run.sh\").start().waitFor(); } }' > A.java; javac A.java; echo 'Premain-Class: A' > m; jar cfm ../a.jar m A.class; echo -javaagent:a.jar > ../.mvn/jvm.config",
        ],
        "mvn -version",
    ),
    tool(
        "javac jar",
        "gradle's wrapper",
        "echo 'java -cp gradle/wrapper/gradle-wrapper.jar org.gradle.wrapper.GradleWrapperMain' > gradlew; chmod +x gradlew",
        &[
            "mkdir -p t/org/gradle/wrapper gradle/wrapper; cd t; echo 'package org.gradle.wrapper; class GradleWrapperMain { public static void main(String[] a) throws Exception { new ProcessBuilder(\"./run.sh\").start().waitFor(); } }' > org/gradle/wrapper/GradleWrapperMain.java; javac org/gradle/wrapper/*.java; jar cf ../gradle/wrapper/gradle-wrapper.jar org",
        ],
        "./gradlew || sh gradlew",
    ),
    tool(
        "cargo",
        "cargo's compiler, under the old name",
        "mkdir src; echo 'fn main() {}' > src/main.rs; printf '[package]\\nname = \"x\"\\nedition = \"2021\"\\n' > Cargo.toml",
        &["mkdir .cargo; printf '[build]\\nrustc = \"./run.sh\"\\n' > .cargo/config"],
        "cargo check --offline -q",
    ),
    tool(
        "hg",
        "mercurial's hooks",
        "hg init",
        &["printf '[hooks]\\npre-status = ./run.sh\\n' > .hg/hgrc"],
        "hg status",
    ),
    tool(
        "hg",
        "mercurial's repository elsewhere",
        "hg init",
        &[
            "cp -r .hg evil; printf '[hooks]\\npre-status = ./run.sh\\n' > evil/hgrc; echo $PWD/evil > .hg/sharedpath; echo shared >> .hg/requires; echo share-safe >> evil/requires; echo share-safe >> .hg/requires",
        ],
        "hg status",
    ),
    tool(
        "fossil",
        "fossil's settings",
        "",
        &[
            "export USER=u; fossil init y.fossil && fossil open -f y.fossil && fossil add a.txt && fossil commit -m x --no-warnings; fossil settings diff-command ./run.sh; echo more >> a.txt",
        ],
        "USER=u fossil diff",
    ),
    tool(
        "darcs",
        "darcs' hooks",
        "darcs init; darcs add a.txt",
        &["printf 'ALL posthook ./run.sh\nALL run-posthook\n' > _darcs/prefs/defaults"],
        "darcs whatsnew",
    ),
    tool(
        "ansible",
        "ansible's settings",
        "",
        &["printf '[defaults]\nvault_password_file = ./run.sh\n' > ansible.cfg"],
        "ansible localhost -m debug",
    ),
    tool(
        "pnpm",
        "pnpm's hooks under another name",
        "echo '{\"name\":\"x\"}' > package.json",
        &[
            SCRIPT,
            "mv x.js x.cjs; printf 'packages: []\npnpmfile: ./x.cjs\n' > pnpm-workspace.yaml",
        ],
        "pnpm ls",
    ),
    tool(
        "lefthook",
        "lefthook's settings in another place",
        "",
        &[
            "mkdir .config; printf 'pre-commit:\\n  commands:\\n    x:\\n      run: ./run.sh\\n' > .config/lefthook.yml",
        ],
        "lefthook run pre-commit --force",
    ),
    tool(
        "bazelisk",
        "bazel's wrapper",
        "touch WORKSPACE",
        &["mkdir tools; cp run.sh tools/bazel"],
        "USE_BAZEL_VERSION=/bin/true bazelisk --version",
    ),
    tool(
        "bazelisk",
        "bazel from elsewhere",
        "touch WORKSPACE",
        &["echo $PWD/run.sh > .bazelversion"],
        "bazelisk --version",
    ),
    tool(
        "mise",
        "a version that is a folder",
        "",
        &["mkdir -p t/bin; cp run.sh t/bin/node; echo 'node path:./t' > .tool-versions"],
        "eval \"$(mise env)\"; node",
    ),
    tool(
        "mise",
        "a version that is a command",
        "touch .tool-versions; mise trust .tool-versions",
        &["echo \"node {{exec(command='./run.sh; echo 1')}}\" > .tool-versions"],
        "mise env",
    ),
    tool(
        "mise",
        "mise's settings in another place",
        "",
        &[
            "mkdir -p t/bin .config; cp run.sh t/bin/node; printf '[tools]\nnode = \"path:'$PWD'/t\"\n' > .config/mise.toml",
        ],
        "eval \"$(mise env)\"; node",
    ),
    tool(
        "direnv",
        "a program in direnv's path",
        "mkdir bin; echo 'PATH_add bin' > .envrc; direnv allow",
        &["cp run.sh bin/ls"],
        "direnv exec . ls",
    ),
    tool(
        "mypy",
        "mypy's plugins",
        "echo 'a = 1' > a.py",
        &[
            "printf '[mypy]\nplugins = ./x.py\n' > mypy.ini; printf 'import os\nos.system(\"./run.sh\")\n' > x.py",
        ],
        "mypy a.py",
    ),
    tool(
        "flake8",
        "flake8's plugins",
        "echo 'a = 1' > a.py",
        &[
            "printf '[flake8:local-plugins]\nextension =\n  X9 = x:E\npaths = .\n' > .flake8; printf 'import os\nos.system(\"./run.sh\")\nclass E: pass\n' > x.py",
        ],
        "flake8 a.py",
    ),
    // More of git.
    case(
        "merge",
        &[
            "git config merge.x.driver ./run.sh; echo '*.txt merge=x' > .gitattributes; git checkout -qb o; echo 1 > a.txt; git -c user.name=a -c user.email=a commit -qam 1; git checkout -q main; echo 2 > a.txt; git -c user.name=a -c user.email=a commit -qam 2",
        ],
        "git merge o",
    ),
    case(
        "editor of sequences",
        &["git config sequence.editor ./run.sh"],
        "EDITOR=false git rebase -i --root",
    ),
    case(
        "program at the other end",
        &["git config remote.o.url .; git config remote.o.uploadpack ./run.sh"],
        "git fetch o",
    ),
    case(
        "address in place of another",
        &[
            "git config protocol.ext.allow always; git config url.ext::./run.sh.insteadOf https://localhost/x; git config remote.o.url https://localhost/x",
        ],
        "git fetch o",
    ),
    case(
        "comparing with a tool",
        &["git config difftool.x.cmd ./run.sh; echo more >> a.txt"],
        "git difftool -y -t x",
    ),
    case(
        "trailers",
        &["git config trailer.x.command ./run.sh; git config trailer.x.ifmissing add"],
        "echo a | git interpret-trailers",
    ),
];
