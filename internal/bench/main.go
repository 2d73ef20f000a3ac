// Command bench measures what Parley costs, as ratios to a floor that is measured
// in the same run: a bare reverse proxy for relaying, a raw group commit of the
// same rows for durability. A machine's own figures change from hour to hour; a
// ratio of medians over interleaved rounds hardly does.
//
//	go run ./internal/bench [-quick] [-only relay,turns] [-cpuprofile folder] [-against commit]
//
// It starts itself again in other roles: the upstream that produces tokens, the proxy, and a
// Parley server with its real engine, log, SQLite file (synchronous=FULL) and native API. The part
// table measures the built program from outside instead, beside a bare relay with the same promises. It
// listens on loopback only, keeps its data in a temporary folder that it removes, and ends every
// process that it started.
//
// The parts turns, start, weeks and long are measured on SQLite and on PostgreSQL, side by side. For
// the latter it starts a cluster of its own, with fsync, if the programs are installed.
//
// A figure that misses its aim is printed as such and fails nothing. The exit code is 1 if
// something broke, for example if an acknowledged event was lost.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley/internal/store/postgres/pgtest"
)

// bench is one run.
type bench struct {
	report
	quick    bool
	dir      string         // for data; removed at the end
	profiles string         // a folder for profiles; empty: none
	parley   string         // the built program, if there is one
	scale    float64        // how much of the part scale is measured
	rows     string         // groups of rows of the table; empty: all
	then     string         // a built program for a column of its own in the table; empty: none
	postgres string         // address of an empty database; empty: cluster
	cluster  *pgtest.Server // started for this run; nil if an address was given or there is no PostgreSQL
}

// parts are the choices of -only, in the order in which they run.
var parts = []struct {
	name string
	run  func(context.Context, *bench) error
}{
	{"table", table},
	{"path", firstPath},
	{"relay", relay},
	{"providers", providers},
	{"turns", turns},
	{"pages", pages},
	{"memory", memory},
	{"sockets", sockets},
	{"start", start},
	{"weeks", weeks},
	{"long", long},
	{"calls", calls},
	{"files", files},
	{"claude", claude},
	{"kill", kill},
	{"scale", scale},
}

// onRequest are the parts that run only when -only names them.
var onRequest = []string{"scale"}

// onStores are the parts that measure each kind of store.
var onStores = []string{"turns", "start", "weeks", "long"}

func main() {
	switch role := os.Getenv(roleVariable); role {
	case "":
		os.Exit(run())
	case mcpRole:
		if err := mcpServer().Run(context.Background(), &sdk.StdioTransport{}); err != nil {
			os.Exit(1)
		}
	default:
		os.Exit(play(role, os.Args[1:]))
	}
}

func run() int {
	b := &bench{report: report{w: os.Stdout}}
	var only string
	flag.BoolVar(&b.quick, "quick", false, "fewer rounds: under a minute, and less to rely on")
	flag.StringVar(&only, "only", "", "parts to run, separated by commas: "+strings.Join(names(), ", "))
	flag.StringVar(&b.profiles, "cpuprofile", "", "`folder` for profiles of the measured Parley: CPU, and heap for the part memory")
	flag.StringVar(&b.parley, "parley", "bin/parley", "the built `program`, for the cold start; without it this program's own server is started")
	flag.StringVar(&b.postgres, "postgres", "", "`address` of an empty PostgreSQL database, which is emptied after each measurement; without it the run starts PostgreSQL, if it is installed")
	commit := flag.String("against", "", "`commit` to compare with, such as HEAD~1: the part table has a column for its program, and of the other parts both commits' run in turns, three times each, and what is printed says how each figure has changed and which are worse by more than 5%. With -quick or -only it takes less long")
	flag.StringVar(&b.then, "then", "", "another built `program`, for a column of its own in the part table")
	flag.StringVar(&b.rows, "rows", "", "rows of the part table, separated by commas: tokens, turns, memory, start; without it all")
	flag.Float64Var(&b.scale, "scale", 1, "how much of the part scale is measured, such as 0.1")
	parent := flag.String("dir", "", "`folder` in which the temporary data folder is made; its disk is what is measured")
	flag.Parse()
	chosen := slices.DeleteFunc(names(), func(name string) bool { return slices.Contains(onRequest, name) })
	if only != "" {
		chosen = strings.Split(only, ",")
	}
	for _, name := range chosen {
		if !slices.Contains(names(), name) {
			fmt.Fprintf(os.Stderr, "bench: there is no part %q; there are %s\n", name, strings.Join(names(), ", "))
			return 2
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *commit != "" {
		args := []string{"-dir", *parent, "-postgres", b.postgres, "-quick=" + strconv.FormatBool(b.quick)}
		if err := against(ctx, os.Stdout, *commit, b, chosen, args); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			return 1
		}
		return 0
	}
	// Far longer than on a slow machine: no run may go on forever.
	ctx, cancel := context.WithTimeout(ctx, 40*time.Minute)
	defer cancel()
	if err := b.all(ctx, *parent, chosen); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

func names() (list []string) {
	for _, p := range parts {
		list = append(list, p.name)
	}
	return list
}

func (b *bench) all(ctx context.Context, parent string, chosen []string) (err error) {
	if b.dir, err = os.MkdirTemp(parent, "parley-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if b.profiles != "" {
		if err := os.MkdirAll(b.profiles, 0o755); err != nil {
			return err
		}
	}
	if _, err := os.Stat(b.parley); err != nil {
		b.parley = ""
	}
	began := time.Now()
	b.head(fmt.Sprintf("%s, %d CPUs, %s/%s", runtime.Version(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH))
	if slices.ContainsFunc(chosen, func(name string) bool { return slices.Contains(onStores, name) }) {
		stop := b.startPostgres()
		defer func() { err = errors.Join(err, stop()) }()
	}
	for _, p := range parts {
		if !slices.Contains(chosen, p.name) {
			continue
		}
		if err := p.run(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	b.foot(time.Since(began))
	return nil
}

// folder makes a data folder for one measurement.
func (b *bench) folder(name string) (string, error) {
	return os.MkdirTemp(b.dir, name+"-")
}

// profile returns the path for a profile, or "" if none is wanted.
func (b *bench) profile(name string) string {
	if b.profiles == "" {
		return ""
	}
	return filepath.Join(b.profiles, name+".pprof")
}

// pick returns quick in a quick run, otherwise full.
func pick[T any](b *bench, quick, full T) T {
	if b.quick {
		return quick
	}
	return full
}
