//! Arguments with which well-known programs run other programs, read commands from a file, or write files.

/// How a program reads its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// `-x VALUE`, `-xVALUE`, `-abx`, `--long VALUE`, `--long=VALUE` and `--lon`.
    Getopt,
    /// `-x VALUE`, `-xVALUE`, `-long VALUE` and `-long=VALUE`; letters are not combined.
    Joined,
    /// `-long VALUE`, `-long=VALUE`, and the same with `--`.
    Long,
}

/// Arguments of one program, or of some of its commands. All texts are lists, separated by blanks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program {
    /// The names of the program.
    pub(super) names: &'static str,
    /// The commands of the program that this is about. Empty for all.
    pub(super) commands: &'static str,
    /// Options, first operands, and patterns of arguments with `*`.
    pub(super) risks: &'static str,
    /// Options that name the folder to work in, or a file in it.
    pub(super) folders: &'static str,
    /// Other options with a value.
    pub(super) values: &'static str,
    pub(super) style: Style,
    /// Assignments among the operands are risks.
    pub(super) assigns: bool,
    /// The second operand is a file that is written.
    pub(super) writes_second: bool,
    /// With fewer operands than this, and none of these options, the input of the program is commands.
    pub(super) input: (usize, &'static str),
}

impl Program {
    const fn new(names: &'static str, risks: &'static str) -> Self {
        Self {
            names,
            commands: "",
            risks,
            folders: "",
            values: "",
            style: Style::Getopt,
            assigns: false,
            writes_second: false,
            input: (0, ""),
        }
    }

    const fn commands(self, commands: &'static str) -> Self {
        Self { commands, ..self }
    }

    const fn folders(self, folders: &'static str) -> Self {
        Self { folders, ..self }
    }

    const fn values(self, values: &'static str) -> Self {
        Self { values, ..self }
    }

    const fn style(self, style: Style) -> Self {
        Self { style, ..self }
    }

    const fn assigns(self) -> Self {
        Self { assigns: true, ..self }
    }

    const fn reads_input(self, operands: usize, options: &'static str) -> Self {
        Self { input: (operands, options), ..self }
    }

    const fn writes_second(self) -> Self {
        Self { writes_second: true, ..self }
    }
}

const JOINED: Style = Style::Joined;
const LONG: Style = Style::Long;

#[rustfmt::skip]
pub(super) const PROGRAMS: &[Program] = &[
    // Search.
    Program::new("find gfind", "-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls -files0-from")
        .values("-name -iname -path -ipath -wholename -regex -iregex -lname -type -xtype -newer -anewer -cnewer -user -group \
            -perm -size -mtime -atime -ctime -mmin -amin -cmin -maxdepth -mindepth -samefile -fstype -printf")
        .style(LONG),
    Program::new("fd fdfind", "-x -X --exec --exec-batch")
        .values("-e -E -t -d -g -c -j -S -o --extension --exclude --type --max-depth --glob --changed-within"),
    Program::new("rg", "--pre --hostname-bin")
        .values("-e -g -t -T -A -B -C -m -f -j -M -r -E --regexp --glob --iglob --type --type-not --max-count --max-depth --replace"),
    Program::new("ag", "--pager").values("-A -B -C -G -m -p --ignore --ignore-dir"),
    Program::new("ack", "--pager --ackrc --output").values("-A -B -C -m"),

    // Display.
    Program::new("less", "-k -o -O +* --log-file --LOG-FILE --lesskey-file --lesskey-src --lesskey-content").values("-p -b -h -j -x -y -z -P -t -T"),
    Program::new("more most", "+*"),
    Program::new("man", "-P -H -C -p -X --pager --html --config-file --preprocessor --gxditview").values("-M -S -s -L -m -e -r -R -E -T --manpath --sections"),
    Program::new("bat batcat", "--pager --diff-pager").values("-l -r -H --language --line-range --style --theme --color --paging"),
    Program::new("tree", "-o --fromfile").values("-L -P -I").style(JOINED),
    Program::new("date", "-s --set").values("-d -f -r --date --file --reference"),
    Program::new("file", "-C --compile").values("-m -f -F -P -e"),
    Program::new("delta", "--pager"),

    // Text and data.
    Program::new("sort", "-o -T --output --compress-program --temporary-directory").values("-k -t -S --key --field-separator --buffer-size --parallel"),
    Program::new("shuf", "-o --output").values("-n -i"),
    Program::new("uniq", "").values("-f -s -w --skip-fields --skip-chars --check-chars").writes_second(),
    Program::new("xxd", "").values("-c -g -l -o -s -n -cols -groupsize -len -seek").style(JOINED).writes_second(),
    Program::new("split gsplit", "--filter").values("-a -b -C -l -n -t"),
    Program::new("iconv", "-o --output").values("-f -t"),
    Program::new("awk gawk mawk nawk original-awk", "-f -i -l -e -E -D -d -p -o --file --include --load --source --exec --dump-variables \
        --pretty-print --profile --debug").values("-F -v --field-separator --assign"),
    Program::new("jq jaq gojq", "-L --library-path").values("-f --from-file --arg --argjson --slurpfile --rawfile --indent"),
    Program::new("yq", "-i --inplace -s --split-exp --split-exp-file").values("-o -p -I --from-file"),
    Program::new("xmllint", "-o --output").style(LONG),
    Program::new("xsltproc", "-o --output").style(LONG),
    Program::new("ctags etags", "-o -f --options --output"),
    Program::new("diff", "--output"),
    Program::new("nm objdump ranlib gold", "--plugin"),
    Program::new("ar", "--plugin @*"),
    Program::new("ld ld.gold ld.lld ld.bfd", "-plugin --plugin -o --output @*").style(JOINED),

    // Archives.
    Program::new("tar gtar bsdtar", "-I -F -T -g --checkpoint-action --to-command --use-compress-program --rsh-command --rmt-command \
        --info-script --new-volume-script --files-from --listed-incremental --index-file")
        .values("-f -C -X -b -H -K -L -N -V --file --directory --exclude --exclude-from --transform --strip-components --owner --group --mode"),
    Program::new("zip", "-TT -T --unzip-command").values("-x -i -b -n -t"),
    Program::new("cpio", "-F -I -O --rsh-command --file").values("-C -H -M -R -E"),
    Program::new("xz unxz lzma", "--files --files0"),
    Program::new("zstd", "-o --output-dir-flat --output-dir-mirror --filelist"),

    // Network.
    Program::new("curl", "-K -o -O -c -D --config --output --output-dir --remote-name --remote-name-all --cookie-jar --dump-header \
        --trace --trace-ascii --stderr --libcurl --etag-save --engine --hsts --alt-svc --ntlm-wb --ssl-sessions *%output{*")
        .values("-A -b -C -d -e -E -F -H -h -m -P -Q -r -t -T -u -U -w -x -X -y -Y -z --data --data-raw --data-binary --data-urlencode \
            --header --request --user --user-agent --referer --max-time --connect-timeout --retry --url --form --proxy --cacert"),
    Program::new("wget", "-O -o -a -P -e -i --output-document --output-file --append-output --directory-prefix --use-askpass --execute \
        --config --input-file --save-cookies --warc-file --rejected-log --hsts-file")
        .values("-t -T -w -Q -U -l -A -R -D -I -X -B --tries --timeout --header --user-agent --post-data"),
    Program::new("aria2c", "-o -d -i --out --dir --input-file --conf-path --on-* --log -l --save-session"),
    Program::new("http https xh", "-o --output -d --download --session"),
    Program::new("ssh autossh", "-o -F -E -I -J -w").values("-p -l -i -b -c -D -e -L -R -m -O -Q -S -W"),
    Program::new("scp", "-S -o -F -D -J").values("-P -i -l -c -X"),
    Program::new("sftp", "-S -o -F -D -J -b").values("-P -i -l -c -B -R -s -X"),
    Program::new("ssh-keygen", "-D -f -w -P -N -Z -O"),
    Program::new("ssh-add", "-s -S"),
    Program::new("rsync", "-e -M --rsh --rsync-path --remote-option --log-file --write-batch --only-write-batch --config")
        .values("-f -T -B --exclude --include --exclude-from --include-from --files-from --filter --port --bwlimit --timeout"),
    Program::new("nc ncat netcat", "-e -c --exec --sh-exec --lua-exec -o --output").values("-p -q -s -w -i -X -x -I -O -T -V -g -G -m -k"),
    Program::new("socat", "*EXEC:* *SYSTEM:* *SHELL:* *exec:* *system:* *shell:* *Exec:* *System:* *CREATE:* *create:*"),
    Program::new("tcpdump tshark dumpcap", "-z -w -W -C").values("-i -c -s -r -F -f -n -T -e"),
    Program::new("nmap", "--script --script-args-file --datadir --servicedb -oN -oX -oG -oA -oS -iL").style(JOINED).values("-p -T -e"),
    Program::new("ip", "-b -batch exec").style(LONG),
    Program::new("ip", "exec").commands("netns n vrf"),
    Program::new("mail mailx s-nail mutt", "-S -A -e -F -i -H -E -X"),
    Program::new("openssl", "-out -engine -provider -provider-path -writerand -keyout -config -passout").style(LONG).values("-in -inform -outform -subj -days"),
    Program::new("gpg gpg2", "-o --output --photo-viewer --exec-path --agent-program --dirmngr-program --homedir --options --log-file --logger-file \
        --gpgconf-program --pinentry-program --keyboxd-program"),

    // Editors and debuggers.
    Program::new("vi vim vim.basic vim.tiny nvim view vimdiff gvim rvim ex", "-c -S -s -u -U -i -w -W -l -q -t -e -E -y --cmd +* \
        --startuptime --listen --server --remote* --luamod* -ll").style(JOINED),
    Program::new("emacs", "-l -f -Q -u -batch -script -x -eval -execute -load -funcall -kill -init-directory -insert").style(LONG),
    Program::new("emacsclient", "-e -a -eval -alternate-editor -s -f -socket-name -server-file").style(LONG),
    Program::new("nano pico", "-s -C -f --speller --backupdir --rcfile --operatingdir"),
    Program::new("gdb rust-gdb", "-ex -x -iex -ix -eiex -eix -args -p -pid -exec -command -init-command -eval-command -init-eval-command -cd -d -directory -data-directory -python").style(LONG),
    Program::new("lldb rust-lldb", "-o -O -s -S -k -K --one-line --source --one-line-before-file --source-before-file --source-quietly"),

    // Databases.
    Program::new("psql", "-f -o -L -c --file --output --log-file --command *\\* *PROGRAM* *program* *Program*").values("-h -p -U -d -v -P -F -R -T")
        .reads_input(usize::MAX, "-l --list -V --version -c -f --command --file"),
    Program::new("mysql mariadb", "-e --execute --init-command --pager --tee --plugin-dir --default-auth --defaults-file --defaults-extra-file *\\*").values("-h -P -u -D -S")
        .reads_input(usize::MAX, "-e --execute -V --version"),
    Program::new("sqlite3 sqlite", "-cmd -init -A .a* .b* .c* .d* .e* .i* .l* .o* .r* .s* .t* .w* .x* \
        *load_extension* *writefile* *edit(* *fts3_tokenizer*").style(LONG).reads_input(2, "-version -help"),

    // Builds.
    Program::new("make gmake bmake", "-f -I -E --file --makefile --eval --include-dir").folders("-C --directory").values("-j -l -o -W --jobs")
        .assigns(),
    Program::new("ninja", "-f -t").folders("-C").values("-j -l -k -d -w"),
    Program::new("just", "-f -c --justfile --shell --shell-arg --command --chooser --cygpath --dotenv-path --set --tempdir --ceiling")
        .folders("-d --working-directory"),
    Program::new("cmake", "-P -E -C --toolchain --script --preset --install --prefix --debug-trycompile --trace-redirect \
        *CMAKE_*COMPILER* *CMAKE_*LAUNCHER* *CMAKE_*LINKER* *CMAKE_TOOLCHAIN* *CMAKE_*INCLUDE* *CMAKE_*MAKE_PROGRAM* *CMAKE_*MODULE_PATH* \
        *_EXECUTABLE* *_COMMAND* *CMAKE_*_FLAGS* *CMAKE_*ARCHIVE* *EMULATOR* *CMAKE_PREFIX_PATH*")
        .style(JOINED).values("-S -B -G -D -A -T --build --target -j --config"),
    Program::new("meson", "--native-file --cross-file --wrap-mode").folders("-C"),
    Program::new("gcc g++ cc c++ clang clang++ cpp gfortran", "-wrapper -fplugin* -B -specs -o -load -Xclang -fpass-plugin* -fuse-ld* -ld-path* --ld-path* \
        -dumpdir -save-temps* -MF -Wl,* -Xlinker --config* --gcc-toolchain* @*").style(JOINED).values("-I -D -L -l -x -std -include -isystem"),
    Program::new("rustc rustdoc", "-C -Z -o --codegen --out-dir --emit --sysroot --test-runtool --runtool --test-builder* @*").values("-L -l --crate-type --edition --cfg --crate-name"),
    Program::new("javac", "-processor -processorpath --processor-path --processor-module-path -d -s -h -Xplugin* -J* @*").style(JOINED).values("-cp -classpath --class-path"),
    Program::new("mvn mvnw", "-s -gs -t -l --settings --global-settings --toolchains --log-file exec:* *:exec *:java *exec-maven-plugin* -Dexec.* -Dmaven.ext.class.path*")
        .folders("-f --file").style(JOINED),
    Program::new("gradle gradlew", "-I -c -g --init-script --settings-file --gradle-user-home --project-cache-dir -Dorg.gradle.java.home* -Dorg.gradle.jvmargs*")
        .folders("-p -b --project-dir --build-file --include-build").style(JOINED),
    Program::new("bazel bazelisk", "--run_under --*override* --workspace_status_command --bazelrc --output_base run"),
    Program::new("terraform tofu", "-out -plugin-dir -backend-config -state-out").folders("-chdir").style(LONG),

    // Package managers and their projects.
    Program::new("cargo", "--config --config-file --tool-config-file -Z --out-dir --artifact-dir")
        .folders("-C --manifest-path --target-dir")
        .values("-p -F -j --package --features --test --bin --example --bench --target --profile --exclude --color --message-format"),
    Program::new("cargo", "-C --codegen --path --git --registry --index --root --emit -o --sysroot").commands("rustc rustdoc install"),
    Program::new("cargo", "-C --codegen").commands("clippy clippy-driver"),
    Program::new("go", "-exec -toolexec -vettool -overlay -modfile -o -pkgdir -ldflags -gcflags -asmflags -gccgoflags -coverprofile -cpuprofile \
        -memprofile -blockprofile -mutexprofile -trace -outputdir -fuzzcachedir -testlogfile -w")
        .folders("-C").values("-run -tags -count -timeout -bench -p -parallel -cpu -mod -v").style(LONG),
    Program::new("go", "*").commands("run install tool"),
    Program::new("npm", "--script-shell --globalconfig --userconfig --node-options --git --shell --editor --viewer --browser --init-module --cache --ignore-scripts=false \
        -g --global exec x explore init create innit set edit")
        .folders("-C --prefix").values("-w --workspace --registry --loglevel --tag"),
    Program::new("npm", "set delete edit fix").commands("config c pkg"),
    Program::new("npm", "./* ../* /* ~* *:*").commands("install i add in ins isnt link ln install-test it update up"),
    Program::new("pnpm", "--config* --script-shell --shell-emulator --global-dir --globalconfig --npmrc* -g --global exec dlx create env config c")
        .folders("-C --dir").values("-F --filter"),
    Program::new("pnpm", "./* ../* /* ~* *:*").commands("install i add link ln"),
    Program::new("yarn", "--use-yarnrc --script-shell --global-folder --modules-folder global exec dlx node create config init link plugin set")
        .folders("--cwd"),
    Program::new("yarn", "./* ../* /* ~* *:*").commands("add install"),
    Program::new("bun", "-c --config --preload -r --import -e -p --eval --print x run exec create init").folders("--cwd"),
    Program::new("composer", "exec config global run-script create-project").folders("-d --working-dir"),
    Program::new("pip pip2 pip3", "--python --log --cache-dir --proxy --cert --client-cert config")
        .values("--timeout --retries --progress-bar"),
    Program::new("pip pip2 pip3", "-e -t -i -f -C --editable --target --prefix --root --index-url --extra-index-url --find-links --config-settings \
        --global-option --build-option --install-option --src --report --pre-commit ./* ../* /* ~* *:* -d --dest --destination-directory -w --wheel-dir")
        .commands("install download wheel lock"),
    Program::new("uv", "--config-file --index --index-url --default-index --extra-index-url --find-links --python -p --cache-dir run x python")
        .folders("--directory --project"),
    Program::new("uv", "run install upgrade").commands("tool"),
    Program::new("uv", "-e --editable -t --target --prefix --config-settings ./* ../* /* ~* *:*").commands("pip add"),
    Program::new("poetry pdm hatch rye pipenv pixi", "run shell config source self plugin env -P").folders("-C --directory --project"),
    Program::new("conda mamba micromamba", "run config create env -p --prefix -c --channel"),
    Program::new("bundle bundler", "exec config plugin console open init gem --gemfile"),
    Program::new("gem", "-P --config-file --source --clear-sources -i --install-dir --bindir exec open"),
    Program::new("rake", "-f -r -e -p -E -I -R --rakefile --require --execute --execute-print --execute-continue --libdir --rakelibdir"),
    Program::new("apt apt-get aptitude", "-o -c --option --config-file ./* ../* /*"),
    Program::new("dpkg", "-i -R --install --unpack --recursive --root --instdir --admindir --pre-invoke --post-invoke"),
    Program::new("rpm", "-i -U -F --install --upgrade --freshen --eval --pipe --load --macros --rcfile"),
    Program::new("rustup", "run toolchain self set override default"),
    Program::new("mise asdf rtx pyenv rbenv nodenv nvm direnv volta", "exec x run shell use"),

    // Tests and linters.
    Program::new("pytest py.test", "-p -c -o --rootdir --confcutdir --config-file --override-ini --pyargs --pdbcls --log-file --junitxml --junit-xml --basetemp --debug --import-mode --report-log")
        .values("-k -m -n -W -r --maxfail --tb --durations --ignore --cov"),
    Program::new("jest vitest", "-c --config --globalSetup --globalTeardown --setupFiles* --testRunner --runner --transform --preset --resolver --reporters --reporter \
        --testEnvironment --environment --rootDir --root --outputFile --coverageDirectory --testResultsProcessor --watchPlugins --snapshotFormat --globals --dependencyExtractor"),
    Program::new("mocha", "-r --require --config --package --reporter -R --ui -u --loader --import --file --spec -n --node-option"),
    Program::new("eslint", "-c -o -f --config --rulesdir --plugin --parser --format --output-file --resolve-plugins-relative-to --fix --cache-file --cache-location --rule-dir"),
    Program::new("prettier", "-w --write --plugin --plugin-search-dir --config --find-config-path --cache-location"),
    Program::new("tsc", "-p -b --project --build --outFile --outDir --declarationDir --tsBuildInfoFile --generateTrace --generateCpuProfile --plugins").style(JOINED),
    Program::new("ruff", "--config --fix --fix-only --unsafe-fixes --output-file -o --add-noqa --cache-dir"),
    Program::new("rubocop", "-c -r -o -a -A --config --require --plugin --format -f --out --autocorrect --autocorrect-all"),
    Program::new("gofmt goimports", "-w -cpuprofile").style(LONG),
    Program::new("rustfmt", "--config-path --config --emit"),
    Program::new("mypy", "--python-executable --config-file --junit-xml --cache-dir --install-types --custom-typeshed-dir --txt-report --html-report"),
    Program::new("pylint", "--load-plugins --init-hook --rcfile --output"),
    Program::new("clang-tidy clang-format", "-i -fix -load -export-fixes --fix --load --export-fixes --config-file -config-file --config -config -p --vfsoverlay").style(JOINED),
    Program::new("shellcheck", "--rcfile"),

    // Systems.
    Program::new("systemctl", "edit set-environment link -H -M --host --machine"),
    Program::new("gh", "set import delete").commands("alias config"),
    Program::new("gh", "install upgrade exec create remove").commands("extension ext extensions"),
    Program::new("hg", "--config --debugger --cwd -R --repository serve").values("-r -m -u"),
    Program::new("svn", "--diff-cmd --diff3-cmd --editor-cmd --config-option --config-dir").values("-r -m"),
    Program::new("jj", "--config --config-toml --config-file --tool config util").folders("-R --repository"),

    // Commands of git. The options before the command are in `git` below.
    Program::new("git", "-x --exec").commands("rebase").values("--onto -s -X"),
    Program::new("git", "run visualize view").commands("bisect"),
    Program::new("git", "foreach").commands("submodule"),
    Program::new("git", "-O --open-files-in-pager").commands("grep").values("-e -f -A -B -C -m --max-depth"),
    Program::new("git", "--upload-pack -u --template -c --config --separate-git-dir --reference-if-able").commands("clone").values("-b -o -j --branch --depth --origin"),
    Program::new("git", "--upload-pack --exec").commands("fetch pull ls-remote fetch-pack").values("-j -o --depth"),
    Program::new("git", "--receive-pack --exec").commands("push send-pack").values("-o"),
    Program::new("git", "--template --separate-git-dir").commands("init"),
    Program::new("git", "--exec --remote -o --output").commands("archive").values("--format --prefix"),
    Program::new("git", "--ext-diff --output").commands("diff log show whatchanged reflog stash range-diff shortlog diff-tree diff-index diff-files rev-list")
        .values("-n -S -G -L -O --author --committer --grep --since --after --until --before --max-count --skip --format --date"),
    Program::new("git", "*").commands("config difftool mergetool filter-branch filter-repo credential credential-store credential-cache send-email hook \
        for-each-repo instaweb web--browse merge-index remote-ext remote-fd daemon shell upload-pack receive-pack upload-archive http-backend gui citool \
        maintenance cvsserver cvsimport p4 svn imap-send request-pull var"),
    Program::new("git", "create").commands("bundle"),
    Program::new("git", "--ext-diff -o --output --output-directory").commands("format-patch"),
    Program::new("git", "--export-marks --export-pack-edges --rewrite-submodules-to").commands("fast-export fast-import"),
    Program::new("git", "-w --web").commands("help"),
];
