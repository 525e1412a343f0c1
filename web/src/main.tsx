// The page begins here.
import { render } from "preact";
import "./ui/marks";
import { App } from "./app";
import "./styles/index.css";

const root = document.getElementById("app");
if (root) render(<App />, root);
