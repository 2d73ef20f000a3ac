package parley_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/parley-server/parley"

// mayImport says which of our packages each of ours may import; "*" stands for
// one path element. The first row that matches holds. A test of a package may
// import more. The longest chain is meant to stay near six.
var mayImport = []struct {
	pkg string
	may []string
}{
	{".", nil},
	{"client", []string{".", "internal/sse"}},
	{"cmd/parley", []string{"server", "apps", "apps/*"}},
	{"server", []string{"tool", "internal/app", "internal/program", "internal/tool/function"}},
	{"server/servertest", []string{".", "client", "server", "internal/app", "internal/config", "internal/program"}},
	{"internal/exampletest", nil},
	{"internal/release", []string{"internal/program"}},
	{"tool", []string{".", "internal/seam", "internal/tool/function"}},
	{"internal/program", []string{".", "client", "web", "internal/*", "internal/*/*", "internal/*/*/*"}}, // no app
	{"apps", nil},
	{"apps/*", []string{
		".", "internal/app", "internal/config", "internal/engine", "internal/eventlog", "internal/wire", "internal/seam", "internal/steps", "internal/fair", "internal/strict", "internal/records", "internal/workspace",
		"internal/tool/*", "internal/sim/*", "internal/gitrepo", "internal/lake", "internal/tidy", "internal/claim", "internal/turncommit", "internal/conversations",
	}},
	{"web", []string{"."}},
	{"internal/bench", []string{"**"}},
	{"internal/seam", []string{"."}},
	{"internal/eventlog", []string{".", "internal/aside", "internal/seam", "internal/redact"}},
	{"internal/auth", []string{".", "internal/dial", "internal/strict", "internal/pattern"}},
	{"internal/app", []string{".", "internal/auth", "internal/checkpoint", "internal/datafolder", "internal/fair", "internal/lake", "internal/seam", "internal/engine", "internal/eventlog", "internal/wire", "internal/config", "internal/vault"}},
	{"internal/toolbox", []string{".", "internal/seam", "internal/pattern"}},
	{"internal/hook", []string{".", "internal/dial", "internal/proc"}},
	{"internal/scope", []string{".", "internal/files", "internal/hook", "internal/seam", "internal/toolbox", "internal/workspace"}},
	{"internal/engine", []string{".", "internal/fair", "internal/files", "internal/nearest", "internal/picture", "internal/seam", "internal/eventlog", "internal/hook", "internal/policy", "internal/scope", "internal/toolbox"}},
	{"internal/engine/enginetest", []string{"**"}},
	{"internal/wire", []string{".", "internal/aside", "internal/seam", "internal/eventlog", "internal/sse"}},
	{"internal/sdkview", []string{".", "internal/eventlog", "internal/steps", "internal/wire"}},
	{"internal/api", []string{".", "internal/aside", "internal/sdkview", "internal/auth", "internal/engine", "internal/login", "internal/nearest", "internal/eventlog", "internal/wire", "internal/seam", "internal/archive", "internal/sse", "internal/fair", "internal/files", "internal/lake", "internal/push", "internal/schedule", "internal/tidy", "internal/strict", "internal/userfiles"}},
	{"internal/push", []string{".", "internal/dial", "internal/seam"}},
	{"internal/schedule", []string{".", "internal/seam"}},
	{"internal/doors", []string{".", "internal/api", "internal/wire", "web"}},
	{"internal/mcpserver", []string{".", "internal/eventlog", "internal/wire", "internal/seam", "internal/sse", "internal/pattern"}},
	{"internal/mcpserver/conformance", []string{".", "internal/api", "internal/login", "internal/mcpserver", "internal/seam", "internal/store/mem", "internal/tool/mcp", "internal/vault"}},
	{"internal/store/*", []string{".", "internal/seam", "internal/store/rule", "internal/datafolder"}},
	{"internal/runtime/claudecli/claudetest", []string{"**"}},
	{"internal/runtime/claudecli", []string{".", "internal/confine", "internal/fair", "internal/policy", "internal/prompt", "internal/seam", "internal/proc"}},
	{"internal/runtime/*", []string{".", "internal/aside", "internal/policy", "internal/prompt", "internal/seam", "internal/task"}},
	{"internal/callout", []string{".", "internal/seam"}},
	{"internal/proc", nil},
	{"internal/attach", []string{".", "internal/extract", "internal/fair", "internal/picture", "internal/proc", "internal/seam"}},
	{"internal/confine", []string{"internal/files", "internal/proc"}},
	{"internal/tool/shell", []string{".", "internal/confine", "internal/fair", "internal/files", "internal/proc", "internal/seam"}},
	{"internal/httpcall", []string{".", "internal/seam", "internal/callout", "internal/picture"}},
	{"internal/picture", []string{".", "internal/seam"}},
	{"internal/login", []string{".", "internal/dial", "internal/vault"}},
	{"internal/tool/rest", []string{".", "internal/seam", "internal/dial", "internal/httpcall", "internal/strict"}},
	{"internal/tool/linkedin", []string{".", "internal/seam", "internal/dial", "internal/files", "internal/vault", "internal/pattern"}},
	{"internal/tool/lake", []string{".", "internal/files", "internal/lake", "internal/seam"}},
	{"internal/tool/tidy", []string{".", "internal/claim", "internal/lake", "internal/seam", "internal/tidy"}},
	{"internal/tidy", []string{".", "internal/claim", "internal/gitrepo", "internal/lake", "internal/pattern"}},
	{"internal/claim", []string{"internal/pattern"}},
	{"internal/tool/*", []string{".", "internal/login", "internal/seam", "internal/dial", "internal/httpcall", "internal/callout", "internal/proc", "internal/records", "internal/keyword", "internal/nearest", "internal/fair", "internal/files", "internal/checkpoint", "internal/extract", "internal/picture", "internal/pattern"}},
	{"internal/model/transport", []string{".", "internal/aside"}},
	{"internal/model/scripted", []string{".", "internal/seam", "internal/records", "internal/keyword", "internal/nearest", "internal/model/scripted/household", "internal/model/scripted/notebook", "internal/model/scripted/customers", "internal/model/scripted/librarian", "internal/model/scripted/tidier", "internal/model/scripted/dialog", "internal/pattern"}},
	{"internal/model/scripted/tidier", []string{"internal/claim", "internal/model/scripted/dialog", "internal/pattern"}},
	{"internal/model/scripted/dialog", nil},
	{"internal/model/scripted/librarian", []string{"internal/model/scripted/dialog", "internal/pattern"}},
	{"internal/model/scripted/household", []string{"internal/model/scripted/dialog", "internal/keyword", "internal/pattern"}},
	{"internal/model/scripted/customers", []string{"internal/model/scripted/dialog", "internal/pattern"}},
	{"internal/model/scripted/notebook", []string{"internal/model/scripted/dialog", "internal/keyword", "internal/nearest", "internal/pattern"}},
	{"internal/model/*", []string{".", "internal/aside", "internal/seam", "internal/sse", "internal/records", "internal/keyword", "internal/model/transport", "internal/pattern"}},
	{"internal/sim/*", []string{".", "internal/seam", "internal/sse"}},
	{"internal/telemetry", []string{".", "internal/seam", "internal/eventlog"}},
	{"internal/archive", []string{".", "internal/seam", "internal/steps", "internal/datafolder", "internal/pattern"}},
	{"internal/livefiles", []string{".", "internal/seam", "internal/eventlog", "internal/archive", "internal/datafolder"}},
	{"internal/approval", []string{".", "internal/seam", "internal/shell"}},
	{"internal/vault", []string{".", "internal/seam"}},
	{"internal/catalog", []string{".", "internal/seam"}},
	{"internal/replay", []string{".", "internal/seam", "internal/engine", "internal/eventlog", "internal/hook", "internal/policy", "internal/redact", "internal/toolbox", "internal/store/mem", "internal/runtime/loop"}},
	{"internal/nearest", nil},
	{"internal/pattern", nil},
	{"internal/shell", nil},
	{"internal/config", []string{".", "internal/extension", "internal/hook", "internal/nearest", "internal/schedule", "internal/task", "internal/workspace", "internal/pattern"}},
	{"internal/extension", []string{".", "internal/approval", "internal/dial", "internal/hook", "internal/seam"}},
	{"internal/workspace", []string{".", "internal/files"}},
	{"internal/turncommit", []string{".", "internal/datafolder", "internal/eventlog", "internal/gitrepo", "internal/seam", "internal/pattern"}},
	{"internal/userfiles", []string{".", "internal/checkpoint", "internal/files", "internal/gitrepo", "internal/lake", "internal/wiki", "internal/workspace"}},
	{"internal/wiki", []string{"internal/pattern"}},
	{"internal/lake", []string{".", "internal/files", "internal/gitrepo", "internal/wiki", "internal/pattern"}},
	{"internal/gitrepo", []string{".", "internal/confine", "internal/files", "internal/pattern", "internal/proc"}},
	{"internal/conversations", []string{".", "internal/seam"}},
	{"internal/backup", []string{"."}},
	{"internal/storecopy", []string{".", "internal/seam"}},
	{"internal/checkpoint", []string{".", "internal/datafolder"}},
	{"internal/records", []string{".", "internal/seam", "internal/keyword"}},
	{"internal/tui/chat", []string{".", "client", "internal/nearest", "internal/tui"}},
	{"internal/*", []string{"."}},
}

// TestImports holds the table. It parses the files: an answer of `go list`
// would come from the test cache when a file has changed.
func TestImports(t *testing.T) {
	t.Parallel()
	seen := 0
	err := fs.WalkDir(os.DirFS("."), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "node_modules" || name == "testdata" || name == "tools" || name == "examples" || p != "." && strings.HasPrefix(name, ".") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		seen++
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := path.Dir(p)
		for _, spec := range f.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			ours := "."
			if name != module {
				rest, ok := strings.CutPrefix(name, module+"/")
				if !ok {
					if pkg == "." && strings.Contains(strings.SplitN(name, "/", 2)[0], ".") {
						t.Errorf("%s imports %s: the vocabulary imports the standard library only", p, name)
					}
					continue
				}
				ours = rest
			}
			if !allowed(pkg, ours) {
				t.Errorf("%s: package %s may not import %s", p, pkg, ours)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 20 {
		t.Errorf("only %d files were looked at", seen)
	}
}

func allowed(pkg, imported string) bool {
	// A conformance suite beside its shelf (storetest, modeltest ...) is test code.
	if strings.HasSuffix(pkg, "test") {
		return true
	}
	for _, row := range mayImport {
		if ok, _ := path.Match(row.pkg, pkg); ok {
			return slices.ContainsFunc(row.may, func(m string) bool {
				ok, _ := path.Match(m, imported)
				return ok || m == "**"
			})
		}
	}
	return false
}
