package homeassistant

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	zombie "zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/fair"
	"github.com/parley-server/parley/internal/seam"
)

// The tool ha_analyze runs one SELECT over an in-memory database that is made for the query and
// thrown away afterwards.

type analyzeInput struct {
	SQL      string   `json:"sql"`
	Entities []string `json:"entities"`
	Area     string   `json:"area"`
	Domain   string   `json:"domain"`
	span
	Limit int `json:"limit"`
}

type table struct {
	From      string         `json:"from"`
	To        string         `json:"to"`
	Columns   []string       `json:"columns"`
	Rows      [][]any        `json:"rows"`
	Truncated bool           `json:"truncated"`
	Loaded    map[string]int `json:"loaded"` // rows of each table that was filled
	Index     Age            `json:"index"`
}

const (
	maxAnalyzed = 150     // entities whose history is loaded when the input names none
	maxNamed    = 500     // entities whose history is loaded when the input names them
	maxPoints   = 200_000 // rows of history: some 40 MB in memory
	maxResult   = 10_000  // rows of the answer
	maxCells    = 4 << 20 // bytes of the answer

	// Each query holds its tables in memory, some 40 MB at most.
	maxAnalyses = 2
	// A query runs for a few seconds and a call of the tool for at most a minute. Queries
	// further back in the queue would not be served in time.
	maxQueued = 16
)

const tables = `
CREATE TABLE states(entity_id TEXT PRIMARY KEY, domain TEXT, name TEXT, state TEXT, value REAL, unit TEXT, device_class TEXT, area TEXT, floor TEXT, device TEXT, integration TEXT, last_changed TEXT, last_updated TEXT, attributes TEXT) WITHOUT ROWID;
CREATE TABLE entities(entity_id TEXT PRIMARY KEY, domain TEXT, name TEXT, integration TEXT, area_id TEXT, device_id TEXT, category TEXT, disabled INTEGER, hidden INTEGER) WITHOUT ROWID;
CREATE TABLE devices(device_id TEXT PRIMARY KEY, name TEXT, manufacturer TEXT, model TEXT, sw_version TEXT, area_id TEXT, via_device_id TEXT) WITHOUT ROWID;
CREATE TABLE areas(area_id TEXT PRIMARY KEY, name TEXT, floor TEXT) WITHOUT ROWID;
CREATE TABLE history(entity_id TEXT, at TEXT, ts REAL, state TEXT, value REAL, seconds REAL);
CREATE TABLE logbook(at TEXT, ts REAL, entity_id TEXT, name TEXT, state TEXT, message TEXT, caused_by TEXT, by_person INTEGER);
CREATE TABLE errors(at TEXT, ts REAL, first TEXT, level TEXT, integration TEXT, logger TEXT, message TEXT, count INTEGER);
`

var (
	usesTable = func(name string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b` + name + `\b`) }
	usesPast  = usesTable("history")
	usesBook  = usesTable("logbook")
	usesLog   = usesTable("errors")
)

// sqlTimeText formats a time for the tables so that SQLite's own functions can read it.
func sqlTimeText(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02 15:04:05.000")
}

func (t *Toolset) analyze(ctx context.Context, r seam.Run, in analyzeInput) (answer, error) {
	if strings.TrimSpace(in.SQL) == "" || len(in.SQL) > maxSQL {
		return answer{}, parley.Errorf(parley.CodeInvalid, "sql is empty or has more than %d bytes", maxSQL).WithField("sql")
	}
	if err := t.index.ready(ctx); err != nil {
		return answer{}, err
	}
	from, to, err := in.of(t.index, t.o.Now(), 24)
	if err != nil {
		return answer{}, err
	}
	began := time.Now()
	leave, err := t.analyzing.Enter(ctx, r.Principal)
	switch {
	case err == nil:
		defer leave()
	case errors.Is(err, fair.ErrFull):
		return answer{}, parley.Errorf(parley.CodeBusy, "%d of your queries are already waiting, which is the limit", maxQueued).
			WithHint("ask again when one has been answered, or ask for more in one query").WithRetry(t.o.sqlTime)
	default:
		return answer{}, stillWaits(ctx, time.Since(began))
	}
	if !registerScratch() {
		return answer{}, parley.Errorf(parley.CodeInternal, "out of memory for a database")
	}
	conn, err := zombie.OpenConn("file::memory:?vfs="+scratchName, zombie.OpenReadWrite|zombie.OpenCreate|zombie.OpenMemory|zombie.OpenURI)
	if err != nil {
		return answer{}, parley.Errorf(parley.CodeInternal, "open a database in memory: %w", err)
	}
	db := &memory{conn: conn, loaded: map[string]int{}}
	defer conn.Close() //nolint:errcheck // it holds nothing
	conn.SetInterrupt(ctx.Done())
	if err := db.create(); err != nil {
		return answer{}, parley.Errorf(parley.CodeInternal, "make the tables: %w", err)
	}
	if err := t.load(ctx, db, r, in, from, to); err != nil {
		if ctx.Err() != nil {
			err = waited(ctx, "reading the tables", t.o.Timeout)
		}
		return answer{}, err
	}
	out, err := db.ask(ctx, in.SQL, min(or(in.Limit, 200), maxResult), t.o.sqlTime)
	if err != nil {
		return answer{}, err
	}
	out.From, out.To, out.Loaded, out.Index = t.index.local(from), t.index.local(to), db.loaded, t.index.Age()
	es, _ := t.index.expand(in.Entities, fewAbout) // a longer list is about none of them
	return answer{out.text(), out, few(es, Entity.id)}, nil
}

// stillWaits is the error of a query that ctx ended before it began. Home Assistant was not
// involved.
func stillWaits(ctx context.Context, d time.Duration) *parley.Error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return &parley.Error{Code: parley.CodeCancelled, Message: "the query was cancelled while it waited for others", Err: context.Cause(ctx)}
	}
	e := parley.Errorf(parley.CodeTimeout, "the query did not begin within %s because other queries ran first", d.Round(time.Millisecond)).
		WithHint("try again; queries of one user run one after the other, so ask for more in one query")
	e.Err = context.Cause(ctx)
	return e
}

// load fills the tables that the query uses.
func (t *Toolset) load(ctx context.Context, db *memory, r seam.Run, in analyzeInput, from, to time.Time) error {
	if err := t.loadHouse(db); err != nil {
		return parley.Errorf(parley.CodeInternal, "fill the tables: %w", err)
	}
	if usesPast.MatchString(in.SQL) {
		es, err := t.meant(in)
		if err != nil {
			return err
		}
		r.Progress(fmt.Sprintf("Reading the history of %d entities", len(es)))
		past, err := t.past(ctx, es, from, to)
		if err != nil {
			return err
		}
		for _, s := range past {
			for i, p := range s.points {
				if db.loaded["history"] >= maxPoints {
					return parley.Errorf(parley.CodeTooLarge, "the history has more than %d rows", maxPoints).WithHint("name entities, or ask for a shorter time")
				}
				if err := db.insert("history", s.e.ID, sqlTimeText(p.at), seconds(p.at), p.state, maybe(p.state), s.until(i).Sub(p.at).Seconds()); err != nil {
					return parley.Errorf(parley.CodeInternal, "fill the tables: %w", err)
				}
			}
		}
	}
	if usesBook.MatchString(in.SQL) {
		if err := wholeHouse(from, to); err != nil {
			return err
		}
		rows, err := t.book(ctx, nil, from, to)
		if err != nil {
			return err
		}
		for _, w := range rows[:min(len(rows), maxPoints)] {
			if err := db.insert("logbook", sqlTimeText(w.at), seconds(w.at), w.EntityID, w.Name, w.State, w.Message, w.ByEntity, w.User != ""); err != nil {
				return parley.Errorf(parley.CodeInternal, "fill the tables: %w", err)
			}
		}
	}
	if usesLog.MatchString(in.SQL) {
		entries, _, err := t.logs(ctx)
		if err != nil {
			return err
		}
		for _, l := range entries {
			for i, m := range l.messages() {
				n := 0 // the count belongs to the entry, not to each of its messages
				if i == 0 {
					n = max(1, l.Count)
				}
				if err := db.insert("errors", sqlTimeText(fromEpoch(l.At)), l.At, sqlTimeText(fromEpoch(l.First)), l.Level, integrationOf(l.Name), l.Name, m, n); err != nil {
					return parley.Errorf(parley.CodeInternal, "fill the tables: %w", err)
				}
			}
		}
	}
	return nil
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

func maybe(state string) any {
	if v, ok := value(state); ok {
		return v
	}
	return nil
}

// meant returns the entities whose history is loaded: those named in the input or in the query
// itself, or all of them if they are few.
func (t *Toolset) meant(in analyzeInput) ([]Entity, error) {
	if len(in.Entities) > 0 {
		return t.index.expand(in.Entities, maxNamed)
	}
	q := Query{Area: in.Area, Domain: in.Domain, Limit: 1 << 20}
	limit := maxNamed
	if in.Area == "" && in.Domain == "" {
		limit = maxAnalyzed
		for _, id := range entityID.FindAllString(in.SQL, -1) {
			if e, ok := t.index.Entity(id); ok && e.State != "" {
				q.IDs = append(q.IDs, id)
			}
		}
		if strings.ContainsAny(in.SQL, "%*") { // LIKE and GLOB may match other entities too
			q.IDs = nil
		}
	}
	hits, _ := t.index.Search(q)
	var out []Entity
	for _, h := range hits {
		if h.State != "" {
			out = append(out, h.Entity)
		}
	}
	if len(out) == 0 {
		return nil, parley.Errorf(parley.CodeNotFound, "no entity matches").WithField("entities").WithHint("the areas are %s", t.index.areaNames())
	}
	if len(out) > limit {
		return nil, parley.Errorf(parley.CodeTooLarge, "the history of %d entities is too much", len(out)).WithField("entities").
			WithHint("name those you need in entities (patterns such as sensor.mains_* are fine), or an area or a domain")
	}
	return out, nil
}

func (t *Toolset) loadHouse(db *memory) error {
	for _, e := range t.index.Entities() {
		if err := db.insert("entities", e.ID, domainOf(e.ID), e.Name, e.Integration, e.AreaID, e.DeviceID, e.Category, e.Disabled, e.Hidden); err != nil {
			return err
		}
		if e.State == "" {
			continue
		}
		if err := db.insert("states", e.ID, domainOf(e.ID), e.Name, e.State, maybe(e.State), e.Unit, e.DeviceClass, e.Area, e.Floor, e.Device, e.Integration, sqlTimeText(e.Changed), sqlTimeText(e.Updated), string(e.Attributes)); err != nil {
			return err
		}
	}
	x := t.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	for id, d := range x.devices {
		if err := db.insert("devices", id, or(d.NameByUser, d.Name), d.Manufacturer, d.Model, d.Software, d.AreaID, d.Via); err != nil {
			return err
		}
	}
	for id, a := range x.areas {
		floor := ""
		if f := x.floors[a.FloorID]; f != nil {
			floor = f.Name
		}
		if err := db.insert("areas", id, a.Name, floor); err != nil {
			return err
		}
	}
	return nil
}

// memory is the database of one query.
type memory struct {
	conn   *zombie.Conn
	held   map[string]*zombie.Stmt
	loaded map[string]int
	failed error // set by our SQL functions, because zombiezen.com/go/sqlite v1.4.2 loses the errors they return
}

func (m *memory) create() error {
	m.held = map[string]*zombie.Stmt{}
	for _, q := range strings.Split(tables, ";\n") {
		if q = strings.TrimSpace(q); q == "" {
			continue
		}
		if err := m.once(q); err != nil {
			return err
		}
	}
	return m.once("BEGIN") // one transaction for all rows; it is never committed
}

func (m *memory) once(query string) error {
	s, _, err := m.conn.PrepareTransient(query)
	if err != nil {
		return err
	}
	_, err = s.Step()
	return errors.Join(err, s.Finalize())
}

func (m *memory) insert(into string, args ...any) error {
	s := m.held[into]
	if s == nil {
		var err error
		if s, _, err = m.conn.PrepareTransient("INSERT OR REPLACE INTO " + into + " VALUES(" + strings.TrimSuffix(strings.Repeat("?,", len(args)), ",") + ")"); err != nil {
			return err
		}
		m.held[into] = s
	}
	for i, a := range args {
		switch a := a.(type) {
		case nil:
			s.BindNull(i + 1)
		case string:
			s.BindText(i+1, a)
		case float64:
			s.BindFloat(i+1, a)
		case int:
			s.BindInt64(i+1, int64(a))
		case bool:
			s.BindBool(i+1, a)
		}
	}
	if _, err := s.Step(); err != nil {
		return err
	}
	m.loaded[into]++
	return s.Reset()
}

// ask runs the query.
func (m *memory) ask(ctx context.Context, query string, limit int, most time.Duration) (out table, err error) {
	for _, s := range m.held {
		_ = s.Finalize()
	}
	m.held = nil
	m.conn.Limit(zombie.LimitLength, maxText)
	m.conn.Limit(zombie.LimitSQLLength, maxSQL)
	m.conn.Limit(zombie.LimitExprDepth, 200)
	m.conn.Limit(zombie.LimitCompoundSelect, 50)
	m.conn.Limit(zombie.LimitVDBEOp, 100_000)
	m.conn.Limit(zombie.LimitColumn, maxColumns)
	m.conn.Limit(zombie.LimitFunctionArg, maxColumns)
	m.conn.Limit(zombie.LimitLikePatternLength, maxPattern)
	m.conn.Limit(zombie.LimitAttached, 0)
	m.conn.Limit(zombie.LimitWorkerThreads, 0)
	g := &guard{}
	if err := errors.Join(m.without(), m.own(), m.conn.SetAuthorizer(g)); err != nil {
		return out, parley.Errorf(parley.CodeInternal, "guard the database: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	m.conn.SetInterrupt(ctx.Done())
	defer m.conn.SetInterrupt(nil)

	query = strings.TrimRight(strings.TrimSpace(query), "; \t\r\n")
	s, rest, err := m.conn.PrepareTransient(query)
	if err != nil && g.many {
		return out, parley.Errorf(parley.CodeInvalid, "SQL: the query has more than %d SELECTs", maxSelects).WithField("sql").WithHint("ask in several queries")
	}
	if err != nil {
		return out, sqlError(ctx, err, most)
	}
	defer s.Finalize() //nolint:errcheck // the error came with Step
	if rest > 0 {
		return out, parley.Errorf(parley.CodeInvalid, "there is more than one statement").WithField("sql").WithHint("write one SELECT; WITH is fine")
	}
	if s.BindParamCount() > 0 {
		return out, parley.Errorf(parley.CodeInvalid, "the statement has parameters").WithField("sql").WithHint("write the values into it")
	}
	out.Rows = [][]any{}
	for i := range s.ColumnCount() {
		out.Columns = append(out.Columns, s.ColumnName(i))
	}
	if len(out.Columns) == 0 {
		return out, parley.Errorf(parley.CodeInvalid, "the statement returns nothing").WithField("sql").WithHint("write one SELECT")
	}
	size := 0
	for {
		row, err := s.Step()
		if m.failed != nil {
			return table{}, m.failed
		}
		if err != nil {
			return out, sqlError(ctx, err, most)
		}
		if !row {
			return out, nil
		}
		if len(out.Rows) == limit || size > maxCells {
			out.Truncated = true
			return out, nil
		}
		cells := make([]any, len(out.Columns))
		for i := range cells {
			switch s.ColumnType(i) {
			case zombie.TypeInteger:
				cells[i] = s.ColumnInt64(i)
			case zombie.TypeFloat:
				if f := s.ColumnFloat(i); math.IsInf(f, 0) || math.IsNaN(f) {
					cells[i] = strconv.FormatFloat(f, 'g', -1, 64) // JSON has no such number
				} else {
					cells[i] = f
				}
			case zombie.TypeText:
				cells[i] = strings.ToValidUTF8(s.ColumnText(i), "�")
			case zombie.TypeBlob:
				cells[i] = fmt.Sprintf("(%d bytes)", s.ColumnLen(i))
			}
			size += 8 + s.ColumnLen(i)
		}
		out.Rows = append(out.Rows, cells)
	}
}

func sqlError(ctx context.Context, err error, most time.Duration) error {
	switch code := zombie.ErrCode(err).ToPrimary(); {
	case ctx.Err() != nil:
		return parley.Errorf(parley.CodeTimeout, "the query was stopped after %s", most).WithField("sql").WithHint("ask for less: a shorter time, fewer entities, no join of large tables without a condition")
	case code == zombie.ResultAuth:
		return parley.Errorf(parley.CodeForbidden, "only one SELECT is allowed").WithField("sql").WithHint("the tables are states, entities, devices, areas, history, logbook and errors")
	case code == zombie.ResultTooBig:
		return tooBig()
	case code == zombie.ResultFull:
		return parley.Errorf(parley.CodeTooLarge, "the query needs more than %d MB of temporary storage", maxScratch>>20).WithField("sql").WithHint("sort and group less: a shorter time, fewer entities, no join of large tables without a condition")
	default:
		return parley.Errorf(parley.CodeInvalid, "SQL: %s", clip(err.Error(), 300)).WithField("sql").WithHint("it is SQLite; the tables are states, entities, devices, areas, history, logbook and errors, as the description of %s says", Analyze)
	}
}

// text formats the table for a model: one line per row, with bars between columns.
func (o table) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d rows", len(o.Rows))
	if o.Truncated {
		b.WriteString(" (there are more: raise limit, or aggregate)")
	}
	fmt.Fprintf(&b, "; history and logbook are from %s to %s; times in the tables are UTC.\n", o.From, o.To)
	b.WriteString(strings.Join(o.Columns, " | ") + "\n")
	for _, r := range o.Rows {
		for i, c := range r {
			if i > 0 {
				b.WriteString(" | ")
			}
			switch c := c.(type) {
			case nil:
				b.WriteString("NULL")
			case float64:
				b.WriteString(strconv.FormatFloat(c, 'g', 10, 64))
			case string:
				b.WriteString(strings.Join(strings.Fields(c), " "))
			default:
				fmt.Fprint(&b, c)
			}
		}
		b.WriteByte('\n')
	}
	if !o.Index.Live {
		b.WriteString(o.Index.String())
	}
	return b.String()
}
