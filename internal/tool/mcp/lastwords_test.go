//go:build unix

package mcp_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/tool/mcp"
)

// TestLastWords: of a program's output, the last lines that explain its end remain.
func TestLastWords(t *testing.T) {
	t.Parallel()
	many := "first\n" + strings.Repeat("again\n", 30) + "last\n"
	for said, want := range map[string]string{
		"": "",
		`npm warn deprecated glob@7.2.3: Glob versions prior to v9 are no longer supported
npm notice
npm notice New major version of npm available! 10.8.2 -> 11.6.0
npm error code E404
npm error 404 Not Found - GET https://registry.example.com/@a%2fserver - Not found
npm error 404
npm error 404  '@a/server@*' is not in this registry.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git folder.

npm error A complete log of this run can be found in: /home/ana/.npm/_logs/2026-11-23T02_00_00_000Z-debug-0.log
`: "npm error code E404\nnpm error 404 Not Found - GET https://registry.example.com/@a%2fserver - Not found\nnpm error 404  '@a/server@*' is not in this registry.",
		`npm ERR! code ENOTFOUND
npm ERR! network request to https://registry.example.com/a failed

npm ERR! A complete log of this run can be found in:
npm ERR!     /home/ana/.npm/_logs/2026-11-23T02_00_00_000Z-debug-0.log
`: "npm ERR! code ENOTFOUND\nnpm ERR! network request to https://registry.example.com/a failed",
		`/srv/a.js:3
throw new Error("no such folder: /x at home")
      ^

Error: no such folder: /x at home
    at Object.<anonymous> (/srv/a.js:3:7)
    at Module._compile (node:internal/modules/cjs/loader:1554:14)
    at node:internal/main/run_main_module:36:49

Node.js v22.14.0
`: "/srv/a.js:3\nthrow new Error(\"no such folder: /x at home\")\n^\nError: no such folder: /x at home",
		many:                               strings.Repeat("again\n", 11) + "last",
		strings.Repeat("x", 1997) + "\nyy": strings.Repeat("x", 1997) + "\nyy",
		strings.Repeat("x", 1998) + "\nyy": "yy",
		"at least one folder is needed":    "at least one folder is needed",
	} {
		if got := mcp.LastWords(said); got != want {
			t.Errorf("of %q\ngot  %q\nwant %q", said, got, want)
		}
	}
}

// TestLastWordsOfProgram: the error of a server that ends at once has the reason, without the other
// output of its package manager.
func TestLastWordsOfProgram(t *testing.T) {
	t.Parallel()
	set := made(t, func(o *mcp.Options) {
		o.Run = []string{"sh", "-c", `for i in $(seq 99); do echo "npm warn deprecated glob@$i: a long and old story about it" >&2; done
echo "npm error 404 no such package s3cret" >&2; echo "npm error A complete log of this run can be found in: /x/_logs/1-debug-0.log" >&2; exit 1`}
		o.Clean = func(text string) string { return strings.ReplaceAll(text, "s3cret", "[redacted]") }
	})
	t.Cleanup(set.Close)
	err := set.Ask(t.Context())
	if err == nil || !strings.HasSuffix(err.Error(), "it said: npm error 404 no such package [redacted]") || strings.Contains(err.Error(), "deprecated") {
		t.Errorf("got %v", err)
	}
}

// TestStartingIsShown: a call reports what it waits for if its server takes long to start, and
// nothing otherwise.
func TestStartingIsShown(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration][]string{time.Second: nil, 20 * time.Second: {"connecting to the MCP server test"}} {
		t.Run(fmt.Sprint(took), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := newTestServer(nil)
				slow := false
				set := mcp.NewOver(mcp.Options{Name: "test", Logger: quiet, Idle: time.Second}, func(ctx context.Context) (sdk.Transport, func(), error) {
					if slow {
						time.Sleep(took) // of the bubble's clock
					}
					return inMemory(ctx, server)
				})
				r := over(t, set)
				time.Sleep(time.Minute) // it is ended because nobody uses it
				slow = true
				r.want(r.call("echo", in{"text": "a"}), parley.OutcomeOK, "a")
				time.Sleep(time.Hour)
				r.mu.Lock()
				defer r.mu.Unlock()
				if !slices.Equal(r.progress, want) {
					t.Errorf("shown %q, want %q", r.progress, want)
				}
			})
		})
	}
}
