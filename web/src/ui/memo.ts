// A component that is drawn again only when `same` says that its properties differ.
import { Component, h, type FunctionComponent } from "preact";

export function memo<P extends object>(inner: FunctionComponent<P>, same: (a: P, b: P) => boolean): FunctionComponent<P> {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      return !same(this.props as P, next);
    }
    override render(props: P) {
      return h(inner, props);
    }
  }
  return Memo as unknown as FunctionComponent<P>;
}
