// Command conformance runs the MCP conformance suite against Parley's MCP
// transport: a server with the suite's fixtures stands behind the same handler
// as every app. It then runs the suite's servers against Parley as a client: this
// program, which the suite starts for each scenario, uses their tools as an app
// does. `make conformance` installs the suite and runs both.
//
// What is expected to fail, and why, is in expected-failures.yml; a line there
// that does not fail any more is a failure, too.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"

	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/mcpserver"
)

// revisions are the newest of each era.
var revisions = []string{"2025-11-25", "2026-07-28"}

func main() {
	dir := flag.String("dir", "internal/mcpserver/conformance", "`folder` with the suite")
	scenario := flag.String("scenario", "", "only this scenario")
	side := flag.String("side", "", "only this side: server or client")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	start := func() error { return run(ctx, *dir, *side, *scenario) }
	if os.Getenv(scenarioVariable) != "" {
		start = func() error { return use(ctx, flag.Arg(0)) }
	}
	if err := start(); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir, side, scenario string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	var failed []error
	for _, rev := range revisions {
		if side != "client" {
			failed = append(failed, named(rev+" as a server", serve(ctx, dir, rev, scenario)))
		}
		if side != "server" {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			failed = append(failed, named(rev+" as a client", suite(ctx, dir, rev, scenario, "client", "--command", self)))
		}
	}
	return errors.Join(failed...)
}

func named(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// serve runs the suite against a server of ours.
func serve(ctx context.Context, dir, rev, scenario string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	life, end := context.WithCancel(ctx)
	defer end()
	// In front of it is what stands before every door of a listener on loopback.
	h := api.Guard(mcpserver.NewHandler(fixtures(life), mcpserver.Transport{}), api.GuardOptions{Hosts: []string{}})
	srv := &http.Server{Handler: h}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	defer func() {
		_ = srv.Close()
		<-served
	}()
	return suite(ctx, dir, rev, scenario, "server", "--url", "http://"+l.Addr().String()+"/mcp")
}

// suite runs the suite, or one scenario of it, for one revision.
func suite(ctx context.Context, dir, rev, scenario string, args ...string) error {
	fmt.Printf("=== %s %s\n", rev, args[0])
	args = append([]string{filepath.Join(dir, "node_modules/@modelcontextprotocol/conformance/dist/index.js")}, args...)
	if scenario != "" {
		args = append(args, "--scenario", scenario, "--spec-version", rev)
	} else {
		args = append(args, "--requirements", rev, "--expected-failures", filepath.Join(dir, "expected-failures.yml"))
	}
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "node_modules/.bin/node"), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = os.TempDir(), os.Stdout, os.Stderr
	return cmd.Run()
}
