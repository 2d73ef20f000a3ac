package claudecli_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/sim/claudecli"
)

func TestMain(m *testing.M) {
	claudecli.Main()
	os.Exit(m.Run())
}

// ended says how a run ended.
type ended struct {
	code   int
	notes  map[string][]string
	stderr string
}

// host drives a run as the host of a capture did.
type host struct {
	t      *testing.T
	dir    string
	config string
	in     io.WriteCloser
	out    *bufio.Scanner
	over   chan ended
	paused chan struct{}
	ids    map[string]string // of the capture: of this run
	back   map[string]string
}

func arguments(s string) []string {
	var all []string
	for _, m := range regexp.MustCompile(`'([^']*)'|(\S+)`).FindAllStringSubmatch(s, -1) {
		all = append(all, m[1]+m[2])
	}
	return all
}

// run starts a play.
func run(t *testing.T, play claudecli.Play, args []string, env map[string]string) *host {
	t.Helper()
	h := &host{t: t, dir: t.TempDir(), config: t.TempDir(), over: make(chan ended, 1), ids: map[string]string{}, back: map[string]string{}}
	return h.again(play, args, env)
}

// again starts a play in the same folders.
func (h *host) again(play claudecli.Play, args []string, env map[string]string) *host {
	all := map[string]string{"CLAUDE_CONFIG_DIR": h.config, "HOME": "/home/user", "ANTHROPIC_API_KEY": "dummy", "CLAUDE_CODE_ENTRYPOINT": "sdk-go"}
	for k, v := range env {
		all[k] = v
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	var stderr strings.Builder
	paused := make(chan struct{})
	h.paused = paused
	notes := map[string][]string{}
	go func() {
		code := claudecli.Run(claudecli.Options{
			Args: append([]string{"--output-format", "stream-json", "--verbose", "--input-format", "stream-json"}, args...),
			Env:  all, Dir: h.dir, In: inR, Out: outW, Err: &stderr, Play: play,
			Note: func(file, line string) {
				notes[file] = append(notes[file], line)
				if strings.HasPrefix(line, claudecli.Pause) {
					close(paused)
				}
			},
		})
		outW.Close()
		inR.Close()
		h.over <- ended{code, notes, stderr.String()}
	}()
	h.in, h.out = inW, bufio.NewScanner(outR)
	h.out.Buffer(nil, 64<<20)
	return h
}

// write writes a line, as the capture has it but with the ids of this run.
func (h *host) write(raw []byte) {
	raw = idLike.ReplaceAllFunc(raw, func(id []byte) []byte {
		if ours, ok := h.ids[string(id)]; ok {
			return []byte(ours)
		}
		return id
	})
	raw = []byte(strings.ReplaceAll(string(raw), "/workspace", h.dir))
	_, _ = h.in.Write(append(raw, '\n')) // the program may have ended, which is seen when it is read
}

// read reads a line. The folders are those of the capture.
func (h *host) read() (claudecli.Line, bool) {
	if !h.out.Scan() {
		return nil, false
	}
	text := strings.ReplaceAll(strings.ReplaceAll(h.out.Text(), h.dir, "/workspace"), h.config, "/home/user/.claude")
	var l claudecli.Line
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&l); err != nil {
		h.t.Errorf("not JSON: %q", text)
	}
	return l, true
}

var idLike = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?:msg|toolu|req)_(?:fake|sim)_[0-9_]+|(?:msg|toolu|req)_[A-Z2-7]{24}`)

// same compares a value with the capture's. Ids differ, but everywhere in the same way.
func (h *host) same(where string, want, got any) {
	switch want := want.(type) {
	case claudecli.Line:
		got, ok := got.(claudecli.Line)
		if !ok {
			h.t.Errorf("%s is not an object", where)
			return
		}
		for k, v := range want {
			if _, ok := got[k]; !ok {
				h.t.Errorf("%s.%s is missing", where, k)
				continue
			}
			h.same(where+"."+k, v, got[k])
		}
		for k := range got {
			if _, ok := want[k]; !ok && !idLike.MatchString(k) {
				h.t.Errorf("%s.%s is too much", where, k)
			}
		}
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			h.t.Errorf("%s is %v, want %v", where, got, want)
			return
		}
		for i := range want {
			h.same(fmt.Sprint(where, ".", i), want[i], got[i])
		}
	case string:
		got, ok := got.(string)
		wants, gots := idLike.FindAllString(want, -1), idLike.FindAllString(got, -1)
		if !ok || idLike.ReplaceAllString(want, "ID") != idLike.ReplaceAllString(got, "ID") {
			h.t.Errorf("%s is %q, want %q", where, got, want)
			return
		}
		for i, w := range wants {
			if h.ids[w] == "" && h.back[gots[i]] == "" {
				h.ids[w], h.back[gots[i]] = gots[i], w
			}
			if h.ids[w] != gots[i] || h.back[gots[i]] != w {
				h.t.Errorf("%s: %s stands for %s and %s", where, w, h.ids[w], gots[i])
			}
		}
	default:
		if !reflect.DeepEqual(want, got) {
			h.t.Errorf("%s is %v, want %v", where, got, want)
		}
	}
}

// Every transcript, played to a host that writes what the capture's host wrote, is what the real
// program wrote.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	for _, known := range claudecli.Transcripts() {
		t.Run(known.Name, func(t *testing.T) {
			t.Parallel()
			c, err := claudecli.Load(known.Name)
			if err != nil {
				t.Fatal(err)
			}
			env := map[string]string{}
			for _, pair := range strings.Fields(known.Env) {
				if name, value, ok := strings.Cut(pair, "="); ok && name != "ANTHROPIC_BASE_URL" {
					env[name] = value
				}
			}
			h := &host{t: t, dir: t.TempDir(), config: t.TempDir(), over: make(chan ended, 1), ids: map[string]string{}, back: map[string]string{}}
			args := arguments(known.Args)
			h.prepare(args, known.Name)
			h.again(claudecli.Play{Transcript: known.Name}, args, env)
			for i, e := range c.Entries {
				if t.Failed() {
					break
				}
				if e.In {
					raw, err := json.Marshal(e.Line)
					if e.Line == nil {
						raw, err = []byte(e.Raw), nil
					}
					if err != nil {
						t.Fatal(err)
					}
					h.write(raw)
					continue
				}
				l, ok := h.read()
				if !ok {
					t.Errorf("entry %d is missing: %v", i, e.Line)
					break
				}
				h.same(fmt.Sprint(i), e.Line, l)
			}
			h.in.Close()
			for {
				l, ok := h.read()
				if !ok {
					break
				}
				t.Errorf("too much: %v", l)
			}
			end := <-h.over
			signalled := strings.Contains(known.Exit, "143") || known.Name == "23-eof-and-signals-c-sigint-midturn"
			if code, ok := strings.CutPrefix(known.Exit, "exit "); ok && !signalled && fmt.Sprint(end.code) != code {
				t.Errorf("exit %d, want %s; stderr: %s", end.code, code, end.stderr)
			}
		})
	}
}

// prepare makes the session that is resumed.
func (h *host) prepare(args []string, name string) {
	id, uuid := "", "eeeeeeee-eeee-4eee-8eee-eeeeeeeeeeee"
	for _, a := range args {
		if v, ok := strings.CutPrefix(a, "--resume="); ok {
			id = v
		}
		if v, ok := strings.CutPrefix(a, "--resume-session-at="); ok {
			uuid = v
		}
	}
	switch name {
	case "10-resume-g-missing", "40-resume-elsewhere-h-not-a-uuid":
		return
	case "40-resume-elsewhere-f-resume-at-unknown":
		uuid = "eeeeeeee-eeee-4eee-8eee-eeeeeeeeeeee"
	}
	if id == "" {
		return
	}
	dir := filepath.Join(h.config, "projects", "-somewhere")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		h.t.Fatal(err)
	}
	line := fmt.Sprintf(`{"type":"user","uuid":%q,"parentUuid":"","sessionId":%q,"message":{"role":"user","content":"before"}}`+"\n", uuid, id)
	if err := os.WriteFile(filepath.Join(dir, id+".jsonl"), []byte(line), 0o600); err != nil {
		h.t.Fatal(err)
	}
}
