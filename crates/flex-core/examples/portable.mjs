// Runs a program of Rust that was built for wasm32-unknown-unknown: node portable.mjs PROGRAM.wasm
import { readFile } from "node:fs/promises";

const { instance } = await WebAssembly.instantiate(await readFile(process.argv[2]), {});
// A panic is a trap, which ends this script with an error. An error that `main` returns is its status.
const status = instance.exports.main(0, 0);
if (status !== 0) throw new Error(`main returned ${status}`);
console.log(`${process.argv[2]}: all results are right`);
