package archive

import (
	"encoding/json"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/steps"
)

// checkpointForm is raised whenever the format of the files changes, or the way a log is
// folded into them.
const checkpointForm = 3

// checkpoint is the saved form of Files.
type checkpoint struct {
	Form      int                  `json:"form"`
	Version   int                  `json:"version"` // parley.FoldVersion
	Fold      parley.Session       `json:"fold"`
	Messages  []message            `json:"messages"`
	Open      []continuation       `json:"open"`
	Artifacts []parley.ArtifactRef `json:"artifacts"`
	Apps      []parley.Digest      `json:"apps"`
	Steps     steps.Log            `json:"steps"`
}

// Save returns the state that [Restore] continues from.
func (f *Files) Save() ([]byte, error) {
	c := checkpoint{Form: checkpointForm, Version: parley.FoldVersion, Fold: f.fold, Messages: f.messages, Artifacts: f.artifacts, Apps: f.apps, Steps: f.steps}
	for _, t := range f.open {
		c.Open = append(c.Open, t.c)
	}
	return encode(c, "")
}

// Restore returns the saved Files. It returns nil if another version saved them or they
// cannot be read; the caller then folds them from the log.
func Restore(body []byte) *Files {
	var c checkpoint
	if json.Unmarshal(body, &c) != nil || c.Form != checkpointForm || c.Version != parley.FoldVersion {
		return nil
	}
	f := NewFiles(parley.Condensed{})
	f.fold, f.artifacts, f.apps, f.steps = c.Fold, c.Artifacts, c.Apps, c.Steps
	f.messages = append(f.messages, c.Messages...)
	for _, a := range c.Artifacts {
		f.isNew(string(a.ID))
	}
	for _, d := range c.Apps {
		f.isNew("app " + string(d))
	}
	for _, t := range c.Open {
		raw, err := encode(t, "")
		if err != nil {
			return nil
		}
		f.open = append(f.open, &Turn{c: t, size: len(raw)})
	}
	return f
}
