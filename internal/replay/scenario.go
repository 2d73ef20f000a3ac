package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/parley-server/parley"
)

// A scenario is a recording as one text file, for people to read and for tests to
// run: a txtar archive of
//
//	log.ndjson       the log, an event a line: commands, replies, results, and what is expected
//	apps/{digest}    each app that a turn began with, as JSON
//
// above which a comment says what it shows.
const logFile, appFolder = "log.ndjson", "apps/"

// maxScenario limits the size of a file.
const maxScenario = 64 << 20

// IsScenario reports whether a file is a scenario, and not an exported zip.
func IsScenario(file []byte) bool {
	return bytes.Contains(file, []byte("-- "+logFile+" --")) && !bytes.HasPrefix(file, []byte("PK"))
}

// Scenario writes the recording as a scenario. about becomes the comment; scrub removes
// secrets from JSON text.
func (r *Recording) Scenario(about string, scrub func(string) string) ([]byte, error) {
	a := &txtar.Archive{Comment: []byte(strings.TrimRight(about, "\n") + "\n\n")}
	var log bytes.Buffer
	for _, ev := range r.Events {
		data := scrub(string(ev.Data))
		if !json.Valid([]byte(data)) {
			return nil, parley.Errorf(parley.CodeInternal, "event %d is no JSON any more without its secrets", ev.Seq)
		}
		log.Write(ev.WithData([]byte(data)).AppendJSON(nil))
		log.WriteByte('\n')
	}
	a.Files = append(a.Files, txtar.File{Name: logFile, Data: log.Bytes()})
	for _, d := range digests(r) {
		body, err := json.MarshalIndent(r.Apps[d], "", " ")
		if err != nil {
			return nil, fmt.Errorf("write the app: %w", err)
		}
		a.Files = append(a.Files, txtar.File{Name: appFolder + string(d), Data: []byte(scrub(string(body)) + "\n")})
	}
	return txtar.Format(a), nil
}

func digests(r *Recording) []parley.Digest {
	var all []parley.Digest
	for d := range r.Apps {
		all = append(all, d)
	}
	slices.Sort(all)
	return all
}

// ReadScenario reads a scenario, also one edited by hand: it needs log.ndjson with its
// events in order, and the apps that they name.
func ReadScenario(file []byte) (*Recording, error) {
	if len(file) > maxScenario {
		return nil, parley.Errorf(parley.CodeTooLarge, "the scenario has more than %d bytes", maxScenario)
	}
	var events []parley.Event
	blobs := map[parley.Digest][]byte{}
	for _, f := range txtar.Parse(file).Files {
		if d, ok := strings.CutPrefix(f.Name, appFolder); ok {
			blobs[parley.Digest(d)] = f.Data
			continue
		}
		if f.Name != logFile {
			return nil, parley.Errorf(parley.CodeInvalid, "a scenario holds %s and %s..., not %s", logFile, appFolder, parley.Cut(f.Name, 80))
		}
		lines := bufio.NewScanner(bytes.NewReader(f.Data))
		lines.Buffer(nil, maxScenario)
		for n := 1; lines.Scan(); n++ {
			if len(bytes.TrimSpace(lines.Bytes())) == 0 {
				continue
			}
			var ev parley.Event
			if err := json.Unmarshal(lines.Bytes(), &ev); err != nil {
				return nil, parley.Errorf(parley.CodeInvalid, "%s:%d: %w", logFile, n, err)
			}
			if want := int64(len(events)) + 1; ev.Seq != want {
				return nil, parley.Errorf(parley.CodeInvalid, "%s:%d: event %d stands where %d belongs", logFile, n, ev.Seq, want)
			}
			events = append(events, ev)
		}
		if err := lines.Err(); err != nil {
			return nil, parley.Errorf(parley.CodeInvalid, "%s: %w", logFile, err)
		}
	}
	if len(events) == 0 {
		return nil, parley.Errorf(parley.CodeInvalid, "there is no %s in the scenario", logFile).WithHint("`parley session to-test` writes one")
	}
	return New(events, blobs)
}
