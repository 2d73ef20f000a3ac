package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	zombie "zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
)

// conn is a connection with its prepared statements. They are held here, not by
// zombie.Conn, whose Prepare clears the bindings when it returns a statement again:
// SQLite 3.54 then recompiles many of them, at twice the cost of the query. Instead,
// every run binds all arguments.
type conn struct {
	*zombie.Conn
	held map[string]*zombie.Stmt
}

// busy is how long another process, such as a person's sqlite3, may lock us out.
const busy = 5 * time.Second

// large is the size in bytes from which a bound argument is released after the run: held
// statements keep what is bound to them.
const large = 64 << 10

func open(path string, flags zombie.OpenFlags) (*conn, error) {
	c, err := zombie.OpenConn(path, flags)
	if err != nil {
		return nil, err
	}
	c.SetBusyTimeout(busy)
	return &conn{Conn: c, held: map[string]*zombie.Stmt{}}, nil
}

func (c *conn) close() error {
	var err error
	for _, s := range c.held {
		err = errors.Join(err, s.Finalize())
	}
	return errors.Join(err, c.Conn.Close())
}

// once runs a statement that is not worth keeping.
func (c *conn) once(query string) error {
	s, _, err := c.PrepareTransient(query)
	if err != nil {
		return &queryError{query, err}
	}
	for row := true; row && err == nil; {
		row, err = s.Step()
	}
	return errors.Join(err, s.Finalize())
}

// exec runs a statement that returns no rows.
func (c *conn) exec(query string, args ...any) error { return c.rows(query, nil, args...) }

// errEnough makes rows stop early.
var errEnough = errors.New("no more rows are wanted")

// rows runs a statement and calls each for every row. The row is valid only until each
// returns.
func (c *conn) rows(query string, each func(*zombie.Stmt) error, args ...any) error {
	s := c.held[query]
	if s == nil {
		var err error
		if s, _, err = c.PrepareTransient(query); err != nil {
			return &queryError{query, err}
		}
		c.held[query] = s
	}
	if n := s.BindParamCount(); n != len(args) {
		return fmt.Errorf("%s: got %d arguments, want %d", query, len(args), n)
	}
	heavy := bind(s, args)
	err := step(s, each)
	if e := s.Reset(); err == nil {
		err = e
	}
	for _, i := range heavy {
		s.BindNull(i)
	}
	return err
}

func step(s *zombie.Stmt, each func(*zombie.Stmt) error) error {
	for {
		row, err := s.Step()
		if err != nil || !row {
			return err
		}
		if each == nil {
			continue
		}
		if err := each(s); err != nil {
			return err
		}
	}
}

// bind returns the positions of large arguments.
func bind(s *zombie.Stmt, args []any) (heavy []int) {
	for i, a := range args {
		size := 0
		switch a := a.(type) {
		case string:
			s.BindText(i+1, a)
			size = len(a)
		case int64:
			s.BindInt64(i+1, a)
		case int:
			s.BindInt64(i+1, int64(a))
		case bool:
			s.BindBool(i+1, a)
		case []byte:
			if a == nil {
				s.BindNull(i + 1)
			} else {
				s.BindBytes(i+1, a)
			}
			size = len(a)
		default:
			panic(fmt.Sprintf("sqlite: argument %d has type %T", i+1, a))
		}
		if size > large {
			heavy = append(heavy, i+1)
		}
	}
	return heavy
}

// bytes copies a column; nil if it is NULL or empty.
func bytes(s *zombie.Stmt, col int) []byte {
	n := s.ColumnLen(col)
	if n == 0 {
		return nil
	}
	b := make([]byte, n)
	s.ColumnBytes(col, b)
	return b
}

// transact runs do in a transaction of its own.
func (c *conn) transact(do func(*conn) error) error {
	if err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := do(c)
	if err == nil {
		err = c.exec("COMMIT")
	}
	if err != nil {
		return errors.Join(err, c.rollback())
	}
	return nil
}

// rollback ends a transaction that SQLite has not ended by itself.
func (c *conn) rollback() error {
	if c.AutocommitEnabled() {
		return nil
	}
	return c.exec("ROLLBACK")
}

// outside turns an error of SQLite or of the file system into one with a code. Errors
// that leave the outcome open stay unchanged.
func outside(path string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*parley.Error](err); ok {
		return err
	}
	if _, ok := errors.AsType[*unknownError](err); ok {
		return err
	}
	const again = "; the server goes on by itself once that is done"
	unavailable := func(what, hint string) error {
		if strings.HasSuffix(hint, again) {
			err = errors.Join(err, ErrLater)
		}
		return says(parley.CodeUnavailable, what, err).WithHint("%s", hint).WithRetry(time.Second)
	}
	switch code := zombie.ErrCode(err).ToPrimary(); {
	case code == zombie.ResultFull, errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return unavailable("there is no room left to store it", "free disk space in the data folder"+again)
	case code == zombie.ResultReadOnly, code == zombie.ResultCantOpen, code == zombie.ResultPerm,
		errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return unavailable("the data folder cannot be written", "check the permissions of "+path+" and its folder, and that the disk is not mounted read-only")
	case code == zombie.ResultIOErr:
		return unavailable("the disk reports an error", "check the disk of "+path+" and the system's log"+again)
	case code == zombie.ResultBusy, code == zombie.ResultLocked:
		return unavailable("another program has locked the database", "close the program that uses "+path+again)
	case code == zombie.ResultNoMem:
		return unavailable("there is not enough memory to store it", "give the server more memory")
	case code == zombie.ResultNotADB:
		return says(parley.CodeInvalid, "the database "+path+" cannot be read: the file is not a database", err).
			WithHint("choose another data folder, or restore the file from a backup")
	case code == zombie.ResultCorrupt:
		return says(parley.CodeInternal, "the database "+path+" is damaged", err).
			WithHint("stop the programs that use it and restore the file from a backup; the .recover command of sqlite3 saves what can still be read")
	}
	if q, ok := errors.AsType[*queryError](err); ok && zombie.ErrCode(err) != zombie.ResultError {
		err = q.err // only a query that SQLite rejects is worth showing
	}
	return fmt.Errorf("the database %s: %w", path, err)
}

// says makes an error whose cause is for logs only.
func says(code parley.Code, what string, err error) *parley.Error {
	e := parley.Errorf(code, "%s: %w", what, err)
	e.Message = what
	return e
}

// queryError is the error of a query that could not be prepared.
type queryError struct {
	query string
	err   error
}

func (e *queryError) Error() string { return e.query + ": " + e.err.Error() }
func (e *queryError) Unwrap() error { return e.err }
