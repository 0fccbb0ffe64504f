package lockkeeper_test

import (
	"fmt"
	"go/ast"
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

const modulePath = "github.com/lockkeeper/lockkeeper"

// arrows says which packages of this repository a package may import. A name
// stands for that package and all below it, "." for the root package alone. What
// is in the same row's "from" may always be imported. Tests may import inTests
// besides. Nobody imports lab, and only lab imports cmd.
var arrows = []struct{ from, to string }{
	{".", "internal/core internal/script"},
	{"internal/core", ""},
	{"internal/script", ""},
	{"internal/redistest", ". internal"},
	{"internal/sqltest", ""},
	{"lockkeepertest", ". internal"},
	{"sqlfence", "."},
	{"flush", ". sqlfence internal/script"},
	{"schedule", ". internal/script"},
	{"goredisconn", "."},
	{"rueidisconn", "."},
	{"cmd", ". sqlfence flush schedule goredisconn rueidisconn internal/core internal/script"},
	{"lab", ". sqlfence flush schedule goredisconn rueidisconn internal lockkeepertest cmd"},
}

const inTests = "lockkeepertest internal/redistest internal/sqltest internal/core"

// nested are the folders with modules of their own; what is not in them belongs
// to the root module, which needs the standard library only.
const nested = "goredisconn rueidisconn cmd lab"

// In internal/core nothing may wait, read a clock, do I/O or depend on chance.
const (
	coreImports = "context sync net os math/rand crypto/rand" // with what is below them
	coreTime    = "Now Sleep After AfterFunc NewTimer NewTicker Tick Since Until"
)

// checks are all the rules about Go files; each returns its violations.
var checks = []func([]source) []string{
	checkStandardLibraryOnly, checkArrows, checkCore, // in this file
	checkBudgets, checkNames, checkPackageComments, // in budgets_test.go
}

func TestBorders(t *testing.T) {
	sources := repository(t)
	for _, check := range checks {
		for _, violation := range check(sources) {
			t.Error(violation)
		}
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, violation := range checkGoMod("go.mod", string(mod)) {
		t.Error(violation)
	}
}

// A source is one parsed Go file.
type source struct {
	path string // from the root of the repository, with slashes
	text string
	fset *token.FileSet
	file *ast.File
}

func (s source) dir() string  { return path.Dir(s.path) }
func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// violation says where a rule is broken, and which.
func (s source) violation(pos token.Pos, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", s.path, s.fset.Position(pos).Line, fmt.Sprintf(format, args...))
}

// parse reads a Go file that is in memory.
func parse(t *testing.T, name, text string) source {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return source{path: name, text: text, fset: fset, file: file}
}

// repository parses all Go files of all modules.
func repository(t *testing.T) []source {
	t.Helper()
	var sources []source
	root := os.DirFS(".")
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		if entry.IsDir() {
			if name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err == nil {
			sources = append(sources, parse(t, name, string(text)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(sources, func(s source) bool { return s.path == "conn.go" }) {
		t.Fatalf("conn.go is not among the %d files found: this looks in the wrong place", len(sources))
	}
	return sources
}

// within reports whether a package is one of those named, or below one.
func within(dir, names string) bool {
	return slices.ContainsFunc(strings.Fields(names), func(name string) bool {
		return dir == name || name != "." && strings.HasPrefix(dir, name+"/")
	})
}

// ours returns the folder of an imported package of this repository.
func ours(importPath string) (dir string, ok bool) {
	if importPath == modulePath {
		return ".", true
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}

// imported returns the import path of a spec.
func imported(spec *ast.ImportSpec) string {
	name, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
	return name
}

func checkStandardLibraryOnly(sources []source) (violations []string) {
	for _, s := range sources {
		if within(s.dir(), nested) {
			continue
		}
		for _, spec := range s.file.Imports {
			name := imported(spec)
			first, _, _ := strings.Cut(name, "/")
			if _, ok := ours(name); !ok && (strings.Contains(first, ".") || name == "C") {
				violations = append(violations, s.violation(spec.Pos(),
					"imports %s: the root module needs nothing but the standard library", name))
			}
		}
	}
	return violations
}

func checkArrows(sources []source) (violations []string) {
	for _, s := range sources {
		row := slices.IndexFunc(arrows, func(a struct{ from, to string }) bool { return within(s.dir(), a.from) })
		if row < 0 {
			violations = append(violations, s.violation(s.file.Package,
				"package %s has no row in the table of arrows in borders_test.go", s.dir()))
			continue
		}
		allowed := arrows[row].from + " " + arrows[row].to
		if s.isTest() {
			allowed += " " + inTests
		}
		for _, spec := range s.file.Imports {
			if dir, ok := ours(imported(spec)); ok && !within(dir, allowed) {
				violations = append(violations, s.violation(spec.Pos(),
					"%s must not import %s: the table of arrows in borders_test.go does not have it", s.dir(), dir))
			}
		}
	}
	return violations
}

func checkCore(sources []source) (violations []string) {
	for _, s := range sources {
		if s.isTest() || !within(s.dir(), "internal/core") {
			continue
		}
		timeName := ""
		for _, spec := range s.file.Imports {
			name := imported(spec)
			if within(name, coreImports) {
				violations = append(violations, s.violation(spec.Pos(), "imports %s: the core is pure", name))
			}
			if name == "time" {
				timeName = "time"
				if spec.Name != nil {
					timeName = spec.Name.Name
				}
			}
		}
		if timeName == "." {
			violations = append(violations, s.violation(s.file.Package, "imports time with a dot: its clock would go unseen"))
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				violations = append(violations, s.violation(n.Pos(), "starts a goroutine: the core is pure"))
			case *ast.SelectorExpr: // a call, or the function handed on as a value
				if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == timeName && within(n.Sel.Name, coreTime) {
					violations = append(violations, s.violation(n.Pos(), "uses time.%s: the core is pure", n.Sel.Name))
				}
			}
			return true
		})
	}
	return violations
}

// checkGoMod sees to it that nobody who requires the root module gets another.
func checkGoMod(name, text string) (violations []string) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); word == "require" || word == "require(" || word == "tool" {
			violations = append(violations, fmt.Sprintf("%s:%d: has a %s: the root module needs nothing but the standard library", name, n, word))
		}
	}
	return violations
}
