//go:build ignore

// Command sizes prints, per package, how much it holds and how it hangs together: to
// be read now and then, not enforced. Of bin/steward it says what it weighs.
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// sizes are of one package without its tests.
type sizes struct {
	functions, files []int // lines of each
	exported         int   // names, methods of exported types among them
	widest           int   // methods that its widest interface declares itself
	imports          map[string]bool
	importers        int
}

const module = "steward/"

func main() {
	packages, err := measure(".")
	if err == nil {
		show(packages)
		err = weigh("bin/steward")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sizes:", err)
		os.Exit(1)
	}
}

// measure looks at all packages below a folder, by their paths.
func measure(root string) (map[string]*sizes, error) {
	packages := map[string]*sizes{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "dbsqlc" || entry.Name() == "data"):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		pkg := filepath.Dir(path)
		if packages[pkg] == nil {
			packages[pkg] = &sizes{imports: map[string]bool{}}
		}
		return packages[pkg].add(path)
	})
	for _, s := range packages {
		for path := range s.imports {
			if imported := packages[path]; imported != nil {
				imported.importers++
			}
		}
	}
	return packages, err
}

func show(packages map[string]*sizes) {
	fmt.Printf("%-38s %7s %6s %9s %3s %4s   %-20s %s\n", "package", "lines", "names", "interface", "in", "out", "function p50 p95 max", "file p50 max")
	all := 0
	for _, pkg := range slices.Sorted(maps.Keys(packages)) {
		s := packages[pkg]
		total := 0
		for _, n := range s.files {
			total += n
		}
		all += total
		fmt.Printf("%-38s %7d %6d %9d %3d %4d   %12d %3d %3d   %8d %3d\n", pkg, total, s.exported, s.widest, s.importers, len(s.imports),
			quantile(s.functions, 0.5), quantile(s.functions, 0.95), quantile(s.functions, 1), quantile(s.files, 0.5), quantile(s.files, 1))
	}
	fmt.Printf("%d packages of %d lines, without tests and generated code\n", len(packages), all)
}

func (s *sizes) add(path string) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, 0)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	line := func(p token.Pos) int { return set.Position(p).Line }
	s.files = append(s.files, line(file.FileEnd))
	for _, i := range file.Imports {
		if path, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module); ours {
			s.imports[path] = true
		}
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			s.functions = append(s.functions, line(d.End())-line(d.Pos())+1)
			if d.Name.IsExported() && (d.Recv == nil || receiver(d).IsExported()) {
				s.exported++
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				s.declare(spec)
			}
		}
	}
	return nil
}

func receiver(f *ast.FuncDecl) *ast.Ident {
	t := f.Recv.List[0].Type
	for {
		switch of := t.(type) {
		case *ast.StarExpr:
			t = of.X
		case *ast.IndexExpr:
			t = of.X
		case *ast.Ident:
			return of
		default:
			return ast.NewIdent("_")
		}
	}
}

func (s *sizes) declare(spec ast.Spec) {
	switch d := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range d.Names {
			if name.IsExported() {
				s.exported++
			}
		}
	case *ast.TypeSpec:
		if d.Name.IsExported() {
			s.exported++
		}
		if i, ok := d.Type.(*ast.InterfaceType); ok {
			s.widest = max(s.widest, i.Methods.NumFields())
		}
	}
}

// weigh prints the size of the program and of how many packages it is made.
func weigh(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("make build comes first: %w", err)
	}
	packages, err := exec.Command("go", "list", "-deps", "./cmd/steward").Output()
	if err != nil {
		return fmt.Errorf("list the program's packages: %w", err)
	}
	fmt.Printf("%s: %.1f MB, of %d packages\n", path, float64(info.Size())/1e6, strings.Count(string(packages), "\n"))
	return nil
}

// quantile by nearest rank; 0 of nothing.
func quantile(n []int, q float64) int {
	if len(n) == 0 {
		return 0
	}
	sorted := slices.SortedFunc(slices.Values(n), cmp.Compare[int])
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
