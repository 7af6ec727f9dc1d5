// Bundles the page into dist/, which the agent carries. `--check` compares instead of writing:
// what is committed must be what its source gives.

import { readFileSync, writeFileSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const LIMIT = 80 * 1024; // bytes, packed by gzip
const here = dirname(fileURLToPath(import.meta.url));
const isCheck = process.argv.includes("--check");

const { outputFiles } = await build({
  absWorkingDir: here,
  entryPoints: [{ in: "src/main.tsx", out: "page" }],
  outdir: "dist",
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "inline",
  jsx: "automatic",
  jsxImportSource: "preact",
  write: false,
});
const licences = ["preact", "uplot"].map((name) => `${name}\n\n${read(`node_modules/${name}/LICENSE`)}`);
const files = [
  ...outputFiles.map(({ path, contents }) => [path.slice(here.length + 6), Buffer.from(contents)]),
  ["index.html", read("index.html")],
  ["icon.svg", read("icon.svg")],
  ["LICENSES.txt", Buffer.from(licences.join("\n\n"))],
];

function read(name) {
  return readFileSync(join(here, name));
}

const packed = files.reduce((sum, [, bytes]) => sum + gzipSync(bytes).length, 0);
const wrong = [];
if (packed > LIMIT) wrong.push(`the page has ${packed} bytes packed; the limit is ${LIMIT}`);
mkdirSync(join(here, "dist"), { recursive: true });
for (const [name, bytes] of files) {
  const path = join("dist", name);
  if (!isCheck) writeFileSync(join(here, path), bytes);
  else if (!read(path).equals(bytes)) wrong.push(`${path} is not what its source gives: run npm run build`);
}
console.log(`${packed} bytes packed`);
if (wrong.length > 0) {
  console.error(wrong.join("\n"));
  process.exit(1);
}
