package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/pingcap/tidb/pkg/ddl/schematracker"
	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	_ "github.com/pingcap/tidb/pkg/planner/core"
	_ "github.com/pingcap/tidb/pkg/types/parser_driver"
	"github.com/pingcap/tidb/pkg/util/mock"
)

type in struct {
	Name string   `json:"name"`
	Sql  []string `json:"sql"`
}

func main() {
	sc := bufio.NewScanner(os.Stdin)
	sc.Buffer(make([]byte, 1<<20), 1<<24)
	for sc.Scan() {
		var c in
		if err := json.Unmarshal(sc.Bytes(), &c); err != nil {
			panic(err)
		}
		ctx := context.Background()
		sctx := mock.NewContext()
		p := parser.New()
		p.EnableWindowFunc(true)
		tr := schematracker.NewSchemaTracker(2)
		run := func(sql string) error {
			st, err := p.ParseOneStmt(sql, "", "")
			if err != nil {
				return err
			}
			switch s := st.(type) {
			case *ast.CreateDatabaseStmt:
				return tr.CreateSchema(sctx, s)
			case *ast.CreateTableStmt:
				return tr.CreateTable(sctx, s)
			case *ast.AlterTableStmt:
				return tr.AlterTable(ctx, sctx, s)
			case *ast.CreateIndexStmt:
				return tr.CreateIndex(sctx, s)
			case *ast.DropIndexStmt:
				return tr.DropIndex(sctx, s)
			case *ast.RenameTableStmt:
				return tr.RenameTable(sctx, s)
			}
			return fmt.Errorf("unexpected %T", st)
		}
		out := map[string]any{"name": c.Name, "sql": c.Sql}
		for _, sql := range append([]string{"CREATE DATABASE `d`"}, c.Sql...) {
			if err := run(sql); err != nil {
				out["error"] = sql + ": " + err.Error()
				break
			}
		}
		if out["error"] == nil {
			t, err := tr.TableByName(ctx, ast.NewCIStr("d"), ast.NewCIStr("t"))
			if err != nil {
				out["error"] = err.Error()
			} else {
				out["table_info"] = t
			}
		}
		b, err := json.Marshal(out)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(b))
	}
}
