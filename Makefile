# Two commands do everything on a fresh Debian machine with a Rust toolchain: `make demo` and `make test`.

# HEOROT_BIN names heorot; heorot-bench, which `heorot bench` and `heorot model` start, is beside it.
HEOROT := $(CURDIR)/target/release/heorot
PROGRAMS := --bin heorot --bin heorot-bench
unexport CARGO_TARGET_DIR # programs are looked for where they are without it

.PHONY: help setup setup-demo build man test lint alerts demo clients postgres pxe stat-cost digest-cost operator upgrade soak sim failover bench compare-fio snapshot-cost lab copies repair directory size group mount-storm boot-storm fuzz fix
help:
	@echo 'make demo    see a real Linux client use Heorot: striped writes, NFSv4.2 and NFSv3, kill -9 of everything'
	@echo 'make test    every check, and all but the longest tests, as CI runs them'
	@echo 'make clients  the stories of clients on each kernel that docs/clients.md names; KERNELS="uml-sid" STORIES="everyday:: fsx::"'
	@echo 'make postgres  PostgreSQL on a machine that dies, and on one that takes over, on each kernel; KERNELS="uml uml-sid"'
	@echo 'make pxe     virtual machines boot from images by PXE, with BIOS and UEFI, while a metaserver is dead'
	@echo 'make stat-cost  what a look at a file costs while another client holds it to write'
	@echo 'make operator  five machines set up and kept as README and docs/runbook.md say, each command of both; some minutes'
	@echo 'make upgrade  a cluster of the oldest commit with the same formats, or OLD=v0.1, is upgraded node by node to this one, under a client; builds OLD first'
	@echo 'make digest-cost  what the comparison of metaservers adds to a create'
	@echo 'make soak    kill -9 rounds with new seeds until it fails or HOURS (default 8) have passed'
	@echo 'make sim     simulated clusters, SEEDS=20000, METASERVERS=2000 and COPIES=1000, those after the ones that make test always runs, or from FIRST on; see docs/simulation.md'
	@echo 'make failover  how long clients wait when metaservers are killed; KILLS=20 MIB=1024 ROUNDS=10000'
	@echo 'make copies  how long clients wait when data servers with copies are killed, hang, or are cut off; KILLS=20 MIB=2048'
	@echo 'make repair  how long the copies of a lost target take to come back, and what clients have meanwhile; MIB=512'
	@echo 'make bench   Heorot beside nfs-ganesha, in turns, with one real client; PAIRS=5 ROWS="create mkdir"'
	@echo 'make snapshot-cost  what a snapshot costs creates, overwrites and renames; PAIRS=7 FILES=2000'
	@echo 'make compare-fio  heorot bench beside fio, in turns, on one mount: whether they agree; PAIRS=5 SIZE=64MiB MBIT=300'
	@echo 'make lab     clusters on links of 100 Mbit/s: what they reach of what the links carry; an hour, or LABS="lab/synchronous.toml"'
	@echo 'make directory  ENTRIES=1000000 in one directory, made, looked up, listed and removed by a real client'
	@echo 'make group   what several metaservers cost and bring beside one: PARTS="changes misses reads"'
	@echo 'make mount-storm  CLIENTS=2000 clients that mount at once: how long each waits'
	@echo 'make boot-storm  machines without a disk that are switched on at once: how long the last one takes, what each server sends'
	@echo 'make fuzz    fuzz every decoder, MINUTES (default 10) each; see fuzz/README.md'
	@echo 'make size    5 million files through the state machine, twice: FILES=5000000 DIRS=50000 LIMIT_MIB=512'
	@echo 'make build   target/release/heorot and heorot-bench; debug symbols are beside them, in heorot.debug and heorot-bench.debug'
	@echo 'make man     target/man: manual pages, and completions for bash, zsh and fish'
	@echo 'make lint    what CI looks at before it runs tests: format, clippy, whether the fuzz targets compile'
	@echo 'make alerts  check the Prometheus alert rules with promtool'
	@echo 'make setup   only what the others do first: install what they need from Debian'
	@echo 'make fix     format the code and apply what clippy can repair'

setup:
	@scripts/setup.sh

build:
	cargo build --release $(PROGRAMS)
	@scripts/strip.sh $(HEOROT)
	@scripts/strip.sh $(HEOROT)-bench

man: build
	$(HEOROT) man target/man
	for shell in bash zsh fish; do $(HEOROT) completions $$shell >target/man/heorot.$$shell || exit; done

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo check --quiet --locked --manifest-path fuzz/Cargo.toml --target-dir target

# One build for all tests: optimized, and with its checks of overflow and invariants. AT_ONCE of those end to end run at the
# same time.
AT_ONCE ?= $(shell expr 2 '*' $$(nproc))
test: export HEOROT_BIN = $(CURDIR)/target/debug/heorot
test: setup lint alerts
	@scripts/test.sh $(AT_ONCE)

# Without what only tests need, which takes minutes to build.
setup-demo:
	@scripts/setup.sh demo

demo: setup-demo build
	HEOROT_BIN=$(HEOROT) cargo run --release --quiet -p tests --bin demo

# What `make test` runs with one kernel, on each. Downloads those that are missing; KILLS rounds of kill -9 with each.
KERNELS ?= uml uml-trixie uml-sid qemu-trixie
STORIES ?= real_client:: client_kernel:: everyday:: fsx:: two_clients:: lock_waiters:: recall:: delegations:: write_delegations:: \
	courtesy:: xattrs:: ranges:: killed_client:: crash_rounds::killed sizes:: exports:: service_addresses::
clients: export HEOROT_BIN = $(CURDIR)/target/debug/heorot
clients: setup
	@$(if $(filter-out uml,$(KERNELS)),scripts/setup-kernels.sh $(filter-out uml,$(KERNELS)))
	cargo build $(PROGRAMS)
	status=0; \
	for kernel in $(KERNELS); do \
		echo "clients: $$kernel"; \
		HEOROT_KERNEL=$$kernel HEOROT_ROUNDS=$(or $(KILLS),3) \
			cargo test -p tests --test e2e -- --test-threads $(AT_ONCE) $(STORIES) || status=$$?; \
	done; \
	cargo test -p tests --test e2e -- --ignored --nocapture mixed_kernels:: || status=$$?; \
	exit $$status

# Not in QEMU without KVM, where a database takes an hour.
postgres: export HEOROT_BIN = $(HEOROT)
postgres: setup build
	@scripts/setup-postgres.sh
	@$(if $(filter-out uml qemu-trixie,$(KERNELS)),scripts/setup-kernels.sh $(filter-out uml qemu-trixie,$(KERNELS)))
	for kernel in $(filter-out qemu-trixie,$(KERNELS)); do \
		echo "postgres: $$kernel"; \
		HEOROT_KERNEL=$$kernel cargo test -p tests --test e2e -- --ignored --nocapture postgres:: || exit; \
	done

stat-cost: setup build
	HEOROT_BIN=$(HEOROT) cargo test -p tests --test e2e -- --ignored --nocapture sizes::

# Virtual machines that boot by PXE, from power-on to a login, with BIOS and with UEFI; KVM makes it a minute.
pxe: export HEOROT_BIN = $(CURDIR)/target/debug/heorot
pxe: setup
	@scripts/setup-pxe.sh
	cargo build $(PROGRAMS)
	cargo test -p tests --test e2e pxe:: -- --ignored --nocapture --test-threads 1

# Machines without a disk that are switched on at once: seconds to the last login, bytes of each server.
boot-storm: setup build
	HEOROT_BIN=$(HEOROT) cargo test -p tests --test e2e boot_storm:: -- --ignored --nocapture

operator: export HEOROT_BIN = $(CURDIR)/target/debug/heorot
operator: setup
	cargo build $(PROGRAMS)
	cargo test -p tests --test e2e operator:: -- --ignored --nocapture

# The version before: a tag, or any commit whose formats are the same (CHANGELOG says which versions may meet). By default the
# oldest such commit: the last one that raised the version of a format.
OLD ?= $(shell git log -1 --format=%H -G'^pub(\(crate\))? const (VERSION|PROTOCOL): u[0-9]+ = ' -- \
	crates/replica/src/transport/mod.rs crates/wire/src)
upgrade: export HEOROT_BIN = $(CURDIR)/target/debug/heorot
upgrade: setup
	@test -n '$(OLD)' || { echo 'make upgrade OLD=COMMIT: which version is the cluster upgraded from?'; exit 1; }
	@echo 'upgrade: from $(OLD)'
	cargo build $(PROGRAMS)
	old=$$(scripts/build-old.sh '$(OLD)') && \
		HEOROT_OLD_BIN=$$old cargo test -p tests --test e2e upgrade:: -- --nocapture

# In one process, without a disk: what the digest of the state adds to applying a create.
digest-cost:
	cargo test --release -p replica --lib what_a_digest_costs -- --ignored --nocapture

soak: setup build
	HEOROT_BIN=$(HEOROT) HEOROT_SOAK_HOURS=$(or $(HOURS),8) cargo test -p tests --test e2e crash_rounds:: -- --ignored --nocapture

# Needs nothing of the machine; CI always runs the first 300, 150 of metaservers and 70 of copies.
sim:
	HEOROT_SIM_SEEDS=$(or $(SEEDS),20000) HEOROT_SIM_FIRST=$(or $(FIRST),301) \
		cargo test --release -p sim --test seeds -- --nocapture
	HEOROT_SIM_METASERVERS_SEEDS=$(or $(METASERVERS),2000) HEOROT_SIM_FIRST=$(or $(FIRST),151) \
		cargo test --release -p sim --test metaservers -- --nocapture
	HEOROT_SIM_COPIES_SEEDS=$(or $(COPIES),1000) HEOROT_SIM_FIRST=$(or $(FIRST),71) \
		cargo test --release -p sim --test copies -- --nocapture

# KILLS of them under each of six kinds of work, ROUNDS of two clients that must agree.
failover: setup build
	HEOROT_BIN=$(HEOROT) HEOROT_KILLS=$(or $(KILLS),20) HEOROT_DATA_MIB=$(or $(MIB),1024) HEOROT_ROUNDS=$(or $(ROUNDS),10000) \
		HEOROT_RESTARTS=$(or $(KILLS),20) \
		cargo test -p tests --test e2e -- --include-ignored --nocapture --test-threads 1 \
		failover:: metaservers:: cut_off:: rolling:: follow:: data_addresses::

# KILLS of data servers, with a file of MIB, two and three copies, and a client of either protocol.
copies: setup build
	HEOROT_BIN=$(HEOROT) HEOROT_KILLS=$(or $(KILLS),20) HEOROT_DATA_MIB=$(or $(MIB),2048) \
		cargo test -p tests --test e2e -- --include-ignored --nocapture --test-threads 1 copies_killed:: data_addresses::clients_of

# A target of four on links of 100 Mbit/s is lost, thrice: without clients, with one that writes, and with one that reads.
repair: setup build
	HEOROT_BIN=$(HEOROT) HEOROT_DATA_MIB=$(or $(MIB),512) \
		cargo test -p tests --test e2e -- --include-ignored --nocapture --test-threads 1 repair::

# nfs-ganesha is only for this: Debian would start it as a service, which nobody here wants.
bench: setup build
	@scripts/setup-bench.sh
	cargo build --release --quiet -p tests --bins
	HEOROT_BIN=$(HEOROT) target/release/bench $(or $(PAIRS),5) $(ROWS)

compare-fio: setup build
	@scripts/setup-fio.sh
	cargo build --release --quiet -p tests --bin compare_fio
	HEOROT_BIN=$(HEOROT) target/release/compare_fio $(or $(PAIRS),5) $(or $(SIZE),64MiB) $(or $(MBIT),300)

snapshot-cost: setup build
	cargo build --release --quiet -p tests --bin snapshot_cost
	HEOROT_BIN=$(HEOROT) target/release/snapshot_cost $(or $(PAIRS),7) $(or $(FILES),2000)

# nfs-ganesha as above. Each file under lab/ says what it builds and how long that takes; those named here: an hour.
LABS ?= lab/one-client.toml lab/processes.toml lab/clients-and-servers.toml
lab: setup build
	@scripts/setup-bench.sh
	cargo build --release --quiet -p lab
	HEOROT_BIN=$(HEOROT) target/release/lab run $(LABS)

directory: setup build
	HEOROT_BIN=$(HEOROT) HEOROT_DIRECTORY_ENTRIES=$(or $(ENTRIES),1000000) \
		cargo test -p tests --test e2e big_directory:: -- --nocapture

group: setup build
	cargo build --release --quiet -p tests --bin group
	HEOROT_BIN=$(HEOROT) target/release/group $(PARTS)

mount-storm: build
	HEOROT_BIN=$(HEOROT) HEOROT_STORM_CLIENTS=$(or $(CLIENTS),2000) cargo test -p tests --test mount_storm -- --nocapture

fuzz:
	scripts/fuzz.sh $(or $(MINUTES),10)

# The second time with memory held to LIMIT_MIB, by a cgroup: needs root.
MAKE_MILLIONS := cargo bench --quiet -p replica --bench size -- $(or $(FILES),5000000) $(or $(DIRS),50000)
size:
	$(MAKE_MILLIONS) 0 /var/tmp
	$(MAKE_MILLIONS) $(or $(LIMIT_MIB),512) /var/tmp

fix:
	cargo fmt --all
	cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged

# The alert rules of docs/monitoring: their form, and what fires when.
alerts:
	@scripts/setup-promtool.sh
	target/tools/promtool check rules docs/monitoring/heorot.rules.yml
	target/tools/promtool test rules docs/monitoring/heorot.rules.test.yml
