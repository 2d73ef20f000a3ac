package rule

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// TimeText is how SQLite holds the times of apps' tables: in the order of time.
const TimeText = "2006-01-02T15:04:05.000Z"

var (
	tablesOf  = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,39}$`)
	tableName = regexp.MustCompile(`\{([a-z][a-z0-9_]{0,39})\}`)
)

// TableNames replaces each {name} in a statement.
func TableNames(query string, name func(string) string) string {
	return tableName.ReplaceAllStringFunc(query, func(at string) string { return name(at[1 : len(at)-1]) })
}

// Migrations returns the statements of an app's migrations for a kind of database, in order.
func Migrations(app string, all fs.FS, kind string) (steps []string, err error) {
	if !tablesOf.MatchString(app) {
		return nil, parley.Errorf(parley.CodeInvalid, "%q cannot be the name of an app with tables", parley.Cut(app, 60))
	}
	names, err := fs.Glob(all, kind+"/*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for i, name := range names {
		if n, _, _ := strings.Cut(path.Base(name), "_"); n != fmt.Sprintf("%04d", i+1) {
			return nil, fmt.Errorf("migration %d of the app %s is called %s", i+1, app, name)
		}
		text, err := fs.ReadFile(all, name)
		if err != nil {
			return nil, err
		}
		steps = append(steps, string(text))
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("the app %s has no migrations for %s", app, kind)
	}
	return steps, nil
}

// NewerTables says that a newer version of an app made its tables.
func NewerTables(app string, have, known int) error {
	return parley.Errorf(parley.CodeUpgradeRequired, "the tables of the app %s have version %d, and this Parley knows versions up to %d", app, have, known).
		WithHint("start the version of Parley that made them, or a newer one")
}

// Violated says that a change violates a constraint of an app's table.
func Violated(err error) error {
	e := parley.Errorf(parley.CodeConflict, "it contradicts what is stored: %w", err)
	e.Message = "it contradicts what is stored"
	return e
}

// TimeOf parses TimeText.
func TimeOf(text string) (time.Time, error) {
	t, err := time.Parse(TimeText, text)
	if err != nil {
		return t, errors.New("a stored time cannot be read: " + parley.Cut(text, 60))
	}
	return t.UTC(), nil
}
