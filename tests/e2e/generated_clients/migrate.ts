// A whole migration by the client that openapi-typescript makes of the served contract.
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import createClient from "openapi-fetch";
import type { paths } from "./dm.js";

const [url, upstream, target] = process.argv.slice(2);
const api = createClient<paths>({ baseUrl: url });

function done<T>(answer: { data?: T; error?: { error_msg: string; error_code: number } }): T {
  if (answer.error) throw new Error(`${answer.error.error_code}: ${answer.error.error_msg}`);
  return answer.data as T;
}

async function stage(): Promise<{ stage: string; unit: string }> {
  const status = done(await api.GET("/tasks/{task-name}/status", { params: { path: { "task-name": "t1" } } }));
  const first = status.data[0];
  if (!first) throw new Error("the task has no subtask");
  return first;
}

const source = { source_name: "s1", host: "127.0.0.1", port: Number(upstream), user: "root", password: "", enable: true, enable_gtid: false };
done(await api.POST("/sources", { body: { source } }));
done(
  await api.POST("/tasks", {
    body: {
      task: {
        name: "t1",
        task_mode: "all",
        enhance_online_schema_change: true,
        strict_optimistic_shard_mode: false,
        meta_schema: "dm_meta",
        on_duplicate: "error",
        target_config: { host: "127.0.0.1", port: Number(target), user: "root", password: "" },
        table_migrate_rule: [{ source: { source_name: "s1", schema: "shop", table: "*" } }],
        source_config: { source_conf: [{ source_name: "s1" }] },
      },
    },
  }),
);
const path = { "task-name": "t1" };
done(await api.POST("/tasks/{task-name}/start", { params: { path }, body: { remove_meta: false } }));
for (let now = await stage(); now.stage !== "Running" || now.unit !== "Sync"; now = await stage()) {
  if (now.stage === "Paused") throw new Error(JSON.stringify(now));
  await pause(300);
}
console.log("replicating");
await once(process.stdin, "data");
done(await api.POST("/tasks/{task-name}/stop", { params: { path }, body: {} }));
console.log((await stage()).stage);
process.exit(0);
