package program

import (
	"bytes"
	"crypto/rand"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/shell"
)

// scaffold has a folder of templates for each kind of new app. The files of "every" are part of
// each kind that has no file of the same name. The ending .tmpl keeps Go from compiling them.
//
//go:embed all:scaffold
var scaffold embed.FS

var newKinds = []string{"blank", "go", "http", "mcp", "openapi", "page"}

func newAppNew(f *flags) *cobra.Command {
	var kind string
	cmd := &cobra.Command{
		Use: "new NAME", Short: "Make an app that runs at once", Args: listed(cobra.ExactArgs(1), "the name becomes that of its folder"),
		Long: `Make an app that runs at once: a folder with an app.yaml, a prompt, and rules for the
scripted model, in the folder of --apps, or in apps below this one. --with says what
its agent works with:

  blank    nothing yet (the default)
  mcp      a server of the Model Context Protocol
  openapi  a service with an OpenAPI description
  http     functions of a service of yours
  page     a page of its own, which speaks to it by the client for browsers
  go       functions in Go, as a program of its own, in NAME below this folder

The stand-ins for a server or a service need Node; put your own in their place.`,
		Example: `  parley app new mine
  parley app new shop --with openapi --apps my-apps`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.settings(cmd)
			if err != nil {
				return err
			}
			parent := s.Apps
			if parent == "" {
				parent = "apps"
			}
			if kind == "go" {
				if cmd.Flags().Changed("apps") {
					return usage(parley.Errorf(parley.CodeInvalid, "--apps does not go with --with go: a program is made in a folder %s below this one, and brings its own app", args[0]).
						WithHint("leave --apps out; to make it elsewhere, run the command there"))
				}
				parent = "."
			}
			dir, err := NewApp(parent, args[0], kind)
			if err != nil {
				if parley.CodeOf(err) == parley.CodeInvalid {
					return usage(err)
				}
				return err
			}
			return printNew(cmd, dir, kind)
		},
	}
	cmd.Flags().StringVar(&kind, "with", "blank", "`kind` of app: "+strings.Join(newKinds, ", "))
	return cmd
}

// printNew prints how to try the app in dir.
func printNew(cmd *cobra.Command, dir, kind string) error {
	out, me := cmd.OutOrStdout(), called(os.Args[0])
	apps, name := filepath.Split(dir)
	apps = filepath.Clean(apps)
	question := "Note that the tomatoes are planted"
	if kind == "blank" || kind == "page" {
		question = "Hello"
	}
	lines := []string{"made " + dir, ""}
	if kind == "go" {
		lines = append(lines, "  cd "+dir)
		if self, err := os.Executable(); err == nil && revision != "v"+version {
			if parley := checkout(self); parley != "" { // a version cannot be fetched before its release
				lines = append(lines, "  go mod edit -replace "+module+"="+parley)
			}
		}
		lines = append(lines, "  go mod tidy", "  go test -trimpath ./...    # the first build takes some minutes", fmt.Sprintf("  go run -trimpath . run %q", question), "  go run -trimpath . serve")
	} else {
		if kind == "http" || kind == "openapi" {
			lines = append(lines, "  node "+filepath.Join(dir, "service.mjs")+"    # leave it running")
		}
		lines = append(lines, fmt.Sprintf("  %s app check %s", me, dir), fmt.Sprintf("  %s run --apps %s --app %s %q", me, apps, name, question), fmt.Sprintf("  %s serve --apps %s", me, apps))
	}
	if kind == "page" {
		lines = append(lines, fmt.Sprintf("  # then open http://%s.localhost:8000", name))
	}
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

// module is the path of Parley's module, which programs that extend it require.
const module = "github.com/parley-server/parley"

// checkout returns the folder of Parley's module if make build made the program self there, and ""
// otherwise.
func checkout(self string) string {
	dir := filepath.Dir(filepath.Dir(self))
	raw, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if first, _, _ := strings.Cut(string(raw), "\n"); err != nil || strings.TrimSpace(first) != "module "+module {
		return ""
	}
	return dir
}

// called is how a person who started the program as arg0 can start it again.
func called(arg0 string) string {
	// The binaries of go run and go test have temporary names.
	moment := strings.Contains(filepath.ToSlash(arg0), "/go-build")
	switch {
	case strings.HasSuffix(arg0, ".test"), moment && filepath.Base(arg0) == "parley":
		return "parley"
	case moment:
		return "go run ."
	}
	return shell.Quote(arg0, "")
}

// NewApp makes the folder of a new app in the folder parent, and returns its path. The folder is
// created whole or not at all. Errors: CodeInvalid for an invalid name or kind, CodeConflict if the
// folder exists.
func NewApp(parent, name, kind string) (dir string, err error) {
	if !config.AppName(name) {
		return "", parley.Errorf(parley.CodeInvalid, "%q cannot be an app's name", parley.Cut(name, 60)).WithHint("use lower-case letters, digits and -, beginning with a letter")
	}
	files, err := templates(kind)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(parent, name)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", parley.Errorf(parley.CodeUnavailable, "make the folder of the app: %w", err)
	}
	if _, err := os.Lstat(dir); err == nil {
		return "", parley.Errorf(parley.CodeConflict, "%s exists already", dir).WithHint("give the app another name, or name another folder with --apps")
	}
	tmp, err := os.MkdirTemp(parent, ".new-"+name+"-")
	if err != nil {
		return "", parley.Errorf(parley.CodeUnavailable, "make the folder of the app: %w", err)
	}
	defer os.RemoveAll(tmp) // what is left of it
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name))
	about := map[string]any{
		"Name": name, "Title": strings.ToUpper(name[:1]) + strings.ReplaceAll(name[1:], "-", " "),
		"Prefix":  map[string]string{"mcp": "mcp__notes__"}[kind],
		"Port":    20_000 + sum.Sum32()%10_000, // below the ports that systems give to clients
		"Version": version, "Go": strings.TrimPrefix(strings.SplitN(runtime.Version(), " ", 2)[0], "go"),
	}
	for file, t := range files {
		var b bytes.Buffer
		if err := t.Execute(&b, about); err != nil {
			return "", err
		}
		at := filepath.Join(tmp, filepath.FromSlash(file))
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, b.Bytes(), 0o644)); err != nil { //nolint:gosec // other users of the machine may read it
			return "", parley.Errorf(parley.CodeUnavailable, "write the app: %w", err)
		}
	}
	if kind == "http" {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		if err := os.WriteFile(filepath.Join(tmp, "secret"), []byte("whsec_"+base64.StdEncoding.EncodeToString(key)+"\n"), 0o600); err != nil {
			return "", parley.Errorf(parley.CodeUnavailable, "write the app: %w", err)
		}
	}
	if err := errors.Join(os.Chmod(tmp, 0o755), os.Rename(tmp, dir)); err != nil { //nolint:gosec // the usual mode of a folder
		return "", parley.Errorf(parley.CodeUnavailable, "write the app: %w", err)
	}
	return dir, nil
}

// templates returns the templates of a kind, by file name.
func templates(kind string) (map[string]*template.Template, error) {
	if !slices.Contains(newKinds, kind) {
		return nil, parley.Errorf(parley.CodeInvalid, "there is no kind of app %q", parley.Cut(kind, 60)).WithHint("the kinds are %s", strings.Join(newKinds, ", "))
	}
	files := map[string]*template.Template{}
	for _, from := range []string{"every", kind} {
		root := path.Join("scaffold", from)
		if err := fs.WalkDir(scaffold, root, func(file string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			raw, err := fs.ReadFile(scaffold, file)
			if err != nil {
				return err
			}
			name := strings.TrimSuffix(strings.TrimPrefix(file, root+"/"), ".tmpl")
			files[name], err = template.New(name).Delims("<<", ">>").Parse(string(raw))
			return err
		}); err != nil {
			return nil, err
		}
	}
	return files, nil
}
